"""Few-shot learning with models other than the networks of wm.

Models learn from data sets of labelled tokens and answer for other tokens, see
`wm.core.adapting`. `adaptation` tunes the networks of wm, and Flax modules of
users; `adaptable` chooses a learner for any object of a user.

`TaskByTask` adapts any model that learns one data set at a time, for each data
set and number of steps. `KeyTable` adapts by a table of labels: points with
equal keys share an answer. `tune_torch` is the default loop for PyTorch
modules.

D data sets of N rows of L tokens, M queried rows, P places in a row; H labels
of a place, k classes of each; T places in use.
"""

from __future__ import annotations

import abc
import copy
import itertools
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from wm import core
from wm.core import adapting, basics, plugins
from wm.models.serving import adapters, user_objects
from wm.models.serving.layout import LaidOut
from wm.runtime import progress

# Tokens [M, L] and places [M, P] -> answers [M, P, H, k] or [M, P, d].
Predict = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Examples(NamedTuple):
  """Labelled sequences of one data set: tokens [N, L], places and labels."""

  tokens: np.ndarray
  places: np.ndarray
  labels: np.ndarray

  @property
  def used(self) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns [T] of the places in use."""
    rows, columns = np.nonzero(self.places != core.DEAD)
    return rows, columns


class Draws(NamedTuple):
  """The labels of data set d, step by step.

  Attributes:
    tasks: data sets, or a stream of data sets.
    kind: kind of labels.
    d: index of the data set.
  """

  tasks: adapting.FewShotTasks | adapting.TaskStream
  kind: adapting.LabelSpec
  d: int

  def at(self, step: int) -> Examples:
    """The labelled sequences of a step."""
    batch = self.tasks.batch(step, self.kind)
    tokens, places, labels = (array[self.d] for array in batch)
    return Examples(read_only(tokens, places), places, labels)


def read_only(tokens: np.ndarray, places: np.ndarray) -> np.ndarray:
  """Tokens [N, L] with padding after each row's last place."""
  read = np.arange(tokens.shape[1]) <= places.max(1, initial=0)[:, None]
  return np.where(read, tokens, core.PAD).astype(np.int32)


class TaskByTask(core.Adaptable):
  """Adapts to one data set at a time."""

  @abc.abstractmethod
  def learn(self, draws: Draws, task: adapting.TaskSpec) -> Predict:
    """Learns one data set from its labels; returns the learned function.

    Raises:
      InputError: the model cannot learn such labels.
    """

  def adapt_to(self, data: adapting.Adaptation) -> np.ndarray:
    """See core.Adaptable; learns from scratch for each number of steps."""
    tasks, queries, kind, steps, seed, config = data
    num, places = len(queries.tokens), queries.places
    shape = len(steps), *places.shape, *kind.shape
    outputs = np.zeros(shape, np.float32)
    every = itertools.product(range(num), range(len(steps)))
    for done, (d, s) in enumerate(every, 1):
      # A data set's seed depends only on its index, as for networks.
      word = basics.stream(seed, 0 if config.one_head else d)
      task = adapting.TaskSpec(kind, steps[s], config.rate, word)
      predict = self.learn(Draws(tasks, kind, d), task)
      tokens = read_only(queries.tokens[d], places[d])
      outputs[s, d] = predict(tokens, places[d])
      progress.report(done, num * len(steps))
    return outputs


class TunedReader(core.Predictor, core.HiddenStates, TaskByTask):
  """A predictor with activations whose network is tuned to each task."""


class KeyTable(core.Adaptable):
  """Adapts to labels by a table: points with the same key share an answer.

  Attributes:
    learned: False ignores all labels: each key has a random class, and answers
      for real labels are 0.
  """

  learned: bool = True

  @abc.abstractmethod
  def keys(self, tokens: np.ndarray, places: np.ndarray) -> np.ndarray:
    """[R, P] uint64 keys of places [R, P] in sequences [R, L].

    Keys of DEAD places are arbitrary.
    """

  def coins(self, seed: int) -> int:
    """Seed of the random classes, from the seed of `adapt_to`."""
    return seed

  def _keys(self, tokens: np.ndarray, places: np.ndarray) -> np.ndarray:
    """[D, R, P] keys of D data sets."""
    if len(places) > 1 and tokens.strides[0] == places.strides[0] == 0:
      # All data sets share their queries: keys are computed once.
      return np.broadcast_to(self._keys(tokens[:1], places[:1]), places.shape)
    # [D R, L] tokens and [D R, P] places: data sets are flattened into rows.
    flat = tokens.reshape(-1, tokens.shape[2])
    hashed = self.keys(flat, places.reshape(len(flat), -1))
    return hashed.reshape(places.shape)

  def adapt_to(self, data: adapting.Adaptation) -> np.ndarray:
    """See core.Adaptable: the most common class, or mean, of a key's labels.

    The score of a class is log(count + 1/2), plus another 1/2 for one hashed
    class, which breaks ties and answers for keys without labels. For real
    labels, unseen keys get the mean of the data set. The number of steps
    matters only for a stream, whose sequences up to that step are counted.
    """
    tasks, queries, kind, steps, seed, _ = data
    seed = self.coins(seed)
    asked = self._keys(queries.tokens, queries.places)
    # One tally per data set, of the queried keys only.
    notes = [_Tally(asked[d], kind, seed, d) for d in range(len(asked))]
    answers, done = [], 0
    for step in steps if isinstance(tasks, adapting.TaskStream) else (1,):
      for number in range(done, step if self.learned else done):
        batch = tasks.batch(number, kind)
        labelled = self._keys(batch.tokens, batch.places)
        for note, key, place, labels in zip(
          notes, labelled, *batch[1:], strict=True
        ):
          used = place != core.DEAD
          note.add(key[used], labels[used])
      # A stream's later steps add to the same tallies.
      answers.append(np.stack([note.answers() for note in notes]))
      done = step
    stacked = np.stack(answers).astype(np.float32)
    outputs = np.broadcast_to(stacked, (len(steps), *stacked.shape[1:]))
    return outputs


class _Tally:
  """Sums and counts of labels for the queried keys.

  A label of one of k classes is a one-hot vector of k numbers.
  """

  def __init__(
    self, queries: np.ndarray, kind: adapting.LabelSpec, seed: int, d: int
  ) -> None:
    """queries: [...] keys; seed, d: of the random classes of keys."""
    # U distinct keys:
    #   _seen [U] ascending   _back [...] row of each query   _sums [U, ...]
    self._seen, self._back = np.unique(queries, return_inverse=True)
    self._shape = (*queries.shape, *kind.shape)
    self._sums = np.zeros((len(self._seen), *kind.shape))
    self._num = np.zeros((len(self._seen), 1))
    self._all, self._count = np.zeros(kind.shape), 0
    self._coin: np.ndarray | None = None
    if isinstance(kind, adapting.Classes):
      # [U, H, k]: a class for each key and head, the same in every call.
      words = self._seen[:, None], np.arange(kind.heads)
      coins = basics.hash64(seed, d, *words) % np.uint64(kind.k)
      self._coin = coins[..., None] == np.arange(kind.k, dtype=np.uint64)

  def add(self, keys: np.ndarray, labels: np.ndarray) -> None:
    """Labels [T, H] or [T, d] of keys [T]."""
    self._count += len(labels)
    row = np.searchsorted(self._seen, keys)
    # A key above all others would index past the end; it matches no query.
    asked = row < len(self._seen)
    asked[asked] = self._seen[row[asked]] == keys[asked]
    # add.at, since += would count a repeated key only once.
    np.add.at(self._num, row[asked], 1)
    if self._coin is not None:
      head = np.arange(labels.shape[1])
      np.add.at(self._sums, (row[asked][:, None], head, labels[asked]), 1)
    else:
      self._all += labels.sum(0, dtype=np.float64)
      np.add.at(self._sums, row[asked], labels[asked])

  def answers(self) -> np.ndarray:
    """[..., H, k] or [..., d] answers for the queried keys."""
    if self._coin is not None:
      # Half a vote for each class: log(0.5) without labels, never log(0). The
      # random class of a key has another half vote.
      answers = np.log(self._sums + 0.5 + 0.5 * self._coin)
    else:
      # Keys without a label get the mean of all.
      answers = self._sums / np.maximum(self._num, 1)
      mean = self._all / max(self._count, 1)
      answers = np.where(self._num > 0, answers, mean)
    return answers[self._back].reshape(self._shape)


# AdamW at a constant rate, as published and as for the networks of wm.
BETAS, DECAY, CLIP, DEVIATION = (0.9, 0.95), 0.1, 1.0, 0.02
ROWS = 16  # Sequences per forward pass of a PyTorch module.
# Tokens and places of the world -> ids and places of the module.
Written = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def tune_torch(
  module: Any,
  features: Callable[[Any, Any], Any],
  written: Written,
  draws: Draws,
  task: adapting.TaskSpec,
) -> Predict:
  """Fine-tunes a copy of a module with a new linear head on its features.

  Full batches or those of a stream, in evaluation mode. AdamW with gradient
  clipping by norm; weight decay applies to matrices only.

  Args:
    module: PyTorch module; it is not changed.
    features: (module, ids [R, K] on its device) -> [R, K, D].
    written: converts tokens and places to those of the module.
    draws: the labels.
    task: see adapting.TaskSpec.
  """
  torch: Any = sys.modules['torch']
  network, kind = copy.deepcopy(module).eval(), task.kind
  device = next(network.parameters()).device
  for weight in network.parameters():
    if weight.is_floating_point():
      weight.requires_grad_(True)
  weights = [x for x in network.parameters() if x.requires_grad]

  def on_device(array: np.ndarray) -> Any:
    return torch.as_tensor(array.astype(np.int64), device=device)

  def at(tokens: np.ndarray, places: np.ndarray) -> Any:
    """[R, P, D] features at places."""
    ids, ends = written(tokens, np.maximum(places, 0))
    with adapters.own_random_numbers():
      x = features(network, on_device(ids))
    return x[on_device(np.arange(len(ids))[:, None]), on_device(ends)].float()

  first = draws.at(0)
  with torch.no_grad():
    width = at(first.tokens[:1], first.places[:1]).shape[-1]
  head = _torch_head(width, kind.outputs, task.seed).to(device)
  weights = [*head.parameters(), *weights]
  optimizer = _torch_optimizer(weights, task.rate)
  for step in range(task.steps):
    batch = draws.at(step)
    optimizer.zero_grad()
    total = len(batch.used[0]) * batch.labels.shape[-1]
    for rows in core.predictor.chunks(len(batch.tokens), 1, ROWS):
      part = Examples(*(array[rows] for array in batch))
      outputs = head(at(part.tokens, part.places))[part.used]
      loss = _torch_loss(outputs, part.labels[part.used], kind) / total
      loss.backward()
    torch.nn.utils.clip_grad_norm_(weights, CLIP)
    optimizer.step()

  def predict(tokens: np.ndarray, places: np.ndarray) -> np.ndarray:
    """See Predict."""
    with torch.no_grad():
      parts = [
        head(at(tokens[rows], places[rows])).cpu().numpy()
        for rows in core.predictor.chunks(len(tokens), 1, ROWS)
      ]
    return np.concatenate(parts).reshape(*places.shape, *kind.shape)

  return predict


def _torch_head(width: int, outputs: int, seed: int) -> Any:
  torch: Any = sys.modules['torch']
  with adapters.own_random_numbers():  # Of the weights that are set below.
    head = torch.nn.Linear(width, outputs)
  generator = torch.Generator().manual_seed(seed % (1 << 63))
  torch.nn.init.normal_(head.weight, 0.0, DEVIATION, generator=generator)
  torch.nn.init.zeros_(head.bias)
  return head


def _torch_optimizer(weights: list[Any], rate: float) -> Any:
  torch: Any = sys.modules['torch']
  groups = [
    {'params': [x for x in weights if x.ndim > 1], 'weight_decay': DECAY},
    {'params': [x for x in weights if x.ndim < 2], 'weight_decay': 0.0},
  ]
  return torch.optim.AdamW(groups, lr=rate, betas=BETAS)


def _torch_loss(
  outputs: Any, labels: np.ndarray, kind: adapting.LabelSpec
) -> Any:
  """Sum of losses of T places: nats, or squared errors."""
  torch: Any = sys.modules['torch']
  if isinstance(kind, adapting.Real):
    return (
      (outputs - torch.as_tensor(labels, device=outputs.device)) ** 2
    ).sum()
  classes = torch.as_tensor(labels.astype(np.int64).ravel())
  return torch.nn.functional.cross_entropy(
    outputs.reshape(-1, kind.k), classes.to(outputs.device), reduction='sum'
  )


def adaptable(reader: Any, thing: Any, laid_out: LaidOut, label: str) -> Any:
  """Adds few-shot learning to a reader, in the way that its object permits.

  Args:
    reader: of the object, see `user_objects.predictor`.
    thing: the object of the user.
    laid_out: its input.
    label: name in errors.

  Returns:
    The reader, now `core.Adaptable` if its object has weights.
  """
  fields: dict[str, Any] = {'_laid_out': laid_out, 'label': label}
  if isinstance(reader, core.QueryModel):
    return reader
  if (pure := adapters.functional(thing, label)) is not None:
    return user_objects.extended(reader, (ByFlax,), {}, **fields, _pure=pure)
  if adapters.is_a(thing, 'torch.nn', 'Module'):
    return user_objects.extended(
      reader, (ByTorch,), {}, **fields, _module=thing
    )
  return reader


class _User(core.Adaptable):
  """Fields of readers that `adaptable` extends.

  Attributes:
    label: name in errors.
  """

  label: str
  _laid_out: LaidOut

  def sent(self, tokens: np.ndarray) -> np.ndarray:
    """The model's input of tokens [N, L] of the world, [N, P + L]."""
    return self._laid_out.ids(tokens)


class ByFlax(_User):
  """Learns by fine-tuning a module of Flax with a new head."""

  _pure: adapters.Functional

  def adapt_to(self, data: adapting.Adaptation) -> np.ndarray:
    """See core.Adaptable; raises InputError where the module fails."""
    from wm.models.serving import adaptation  # Deferred: it imports JAX.

    tasks, queries, laid_out = data.tasks, data.queries, self._laid_out
    with plugins.user_code():  # Tracing runs the code of the module.
      adapter = adaptation.foreign(
        self._pure.features,
        self._pure.weights,
        laid_out.num_ids(self.vocab_size),
        self.max_len + len(laid_out.layout.before),
      )
      return adapter.adapt_to(
        data._replace(
          tasks=self._laid_out_tasks(tasks, data.kind),
          queries=queries._replace(
            tokens=self.sent(queries.tokens),
            places=laid_out.places(queries.places),
          ),
        )
      )

  def _laid_out_tasks(
    self,
    tasks: adapting.FewShotTasks | adapting.TaskStream,
    kind: adapting.LabelSpec,
  ) -> adapting.FewShotTasks | adapting.TaskStream:
    """The tasks, or those of each step of a stream, as the module's input."""
    stream = isinstance(tasks, adapting.TaskStream)

    def at(step: int) -> adapting.FewShotTasks:
      batch = tasks.batch(step, kind)
      return batch._replace(
        tokens=self.sent(batch.tokens),
        places=self._laid_out.places(batch.places),
      )

    return adapting.TaskStream(at) if stream else at(0)


class ByTorch(_User, TaskByTask):
  """Learns by fine-tuning a module of PyTorch with a new head."""

  _module: Any

  def learn(self, draws: Draws, task: adapting.TaskSpec) -> Predict:
    """See TaskByTask; raises InputError where the module fails."""

    def features(module: Any, tokens: Any) -> Any:
      """[R, L, D] of tokens [R, L]."""
      if adapters.has(module, 'hidden'):
        return module.hidden(tokens, -1)
      if adapters.is_a(module, 'transformers', 'PreTrainedModel'):
        return module(tokens, output_hidden_states=True).hidden_states[-1]
      return adapters.logits_of(module(tokens))

    def written(
      tokens: np.ndarray, places: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
      """Ids of the module, and the places there."""
      return self.sent(tokens), self._laid_out.places(places)

    with plugins.user_code(self.label):
      return tune_torch(self._module, features, written, draws, task)
