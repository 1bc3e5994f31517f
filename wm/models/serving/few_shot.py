"""Learners of few-shot tasks that are no networks of ours.

`TaskByTask` adapts anything that learns one data set at a time: it draws the
labels, learns for each rate, data set and number of steps, and chooses by
validation. `KeyTable` adapts by a table of labels: points with equal keys share
an answer. `tune_torch` is the default loop of PyTorch modules.

D data sets of N rows of L tokens, M rows that are asked about, P places in a
row; H labels of a place, k classes of each; T = places in use.
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
from wm.core import adapting, basics
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
    tasks: data sets, or a stream of them.
    kind: what labels are.
    d: number of the data set.
  """

  tasks: adapting.FewShotTasks | adapting.TaskStream
  kind: adapting.LabelSpec
  d: int

  def at(self, step: int) -> Examples:
    """The labelled sequences of a step."""
    tasks = self.tasks
    if isinstance(tasks, adapting.TaskStream):
      tasks = tasks.batch(step, self.kind)
    tokens, places, labels = (array[self.d] for array in tasks)
    return Examples(read_only(tokens, places), places, labels)

  def until(self, step: int) -> Examples:
    """Those of all steps before; without a stream all steps have the same."""
    steps = step if isinstance(self.tasks, adapting.TaskStream) else 1
    return Examples(
      *map(np.concatenate, zip(*map(self.at, range(steps)), strict=True))
    )


def mapped(
  tasks: adapting.FewShotTasks | adapting.TaskStream,
  kind: adapting.LabelSpec,
  change: Callable[[adapting.FewShotTasks], adapting.FewShotTasks],
) -> adapting.FewShotTasks | adapting.TaskStream:
  """Tasks, or those of each step, after a change."""
  if isinstance(tasks, adapting.TaskStream):
    stream = tasks
    return adapting.TaskStream(lambda step: change(stream.batch(step, kind)))
  return change(tasks)


def read_only(tokens: np.ndarray, places: np.ndarray) -> np.ndarray:
  """Tokens [N, L] up to each row's last place, and padding behind it."""
  read = np.arange(tokens.shape[1]) <= places.max(1, initial=0)[:, None]
  return np.where(read, tokens, core.PAD).astype(np.int32)


def class_scores(labels: np.ndarray, k: int) -> np.ndarray:
  """[..., k] scores of named classes: log 1.5, and log 0.5 of all others."""
  return np.log(0.5 + (labels[..., None] == np.arange(k))).astype(np.float32)


class TaskByTask(core.Adaptable):
  """Adapts to one data set after the other."""

  @abc.abstractmethod
  def learn(self, draws: Draws, task: adapting.TaskSpec) -> Predict:
    """What has learned a data set, from its labels alone.

    Raises:
      InputError: it cannot learn such labels.
    """

  def adapt(
    self,
    tasks: adapting.FewShotTasks | adapting.TaskStream,
    queries: adapting.QueryPoints,
    kind: adapting.LabelSpec,
    steps: tuple[int, ...],
    seed: int,
    config: adapting.FineTuneConfig = adapting.FINE_TUNE,
  ) -> adapting.Adapted:
    """See core.Adaptable: learns anew for each number of steps."""
    adapting.check_adapting(tasks, queries, kind, steps, config)
    num, held = len(queries.tokens), config.validation
    shape = len(config.rates), len(steps), num
    places = queries.places
    outputs = np.zeros((*shape, *places.shape[1:], *kind.shape), np.float32)
    losses = np.zeros(shape)
    every = itertools.product(range(num), range(shape[0]), range(shape[1]))
    for done, (d, r, s) in enumerate(every, 1):
      # A data set's seed depends on its number alone, as a network's does.
      word = basics.stream(seed, 0 if config.one_head else d)
      task = adapting.TaskSpec(
        kind, steps[s], config.rates[r], config.trainable, word
      )
      predict = self.learn(Draws(tasks, kind, d), task)
      tokens = read_only(queries.tokens[d], places[d])
      outputs[r, s, d] = predict(tokens, places[d])
      if held is not None:
        losses[r, s, d] = _loss(predict, Draws(held, kind, d).at(0), kind)
      progress.report(done, int(np.prod(shape)))
    return adapting.select(outputs, losses, config)


def _loss(predict: Predict, held: Examples, kind: adapting.LabelSpec) -> float:
  """Mean loss of held labels: nats, or squared error; 0 without labels."""
  labels = held.labels[held.used]
  answers = predict(held.tokens, held.places)[held.used].astype(np.float64)
  if not len(labels):
    return 0.0
  if isinstance(kind, adapting.Real):
    return float(((answers - labels) ** 2).mean())
  answers -= answers.max(-1, keepdims=True)
  norm = np.log(np.exp(answers).sum(-1))
  chosen = np.take_along_axis(answers, labels[..., None], -1)[..., 0]
  return float((norm - chosen).mean())


class KeyTable(core.Adaptable):
  """Adapts to labels by a table: points with the same key share an answer.

  Attributes:
    learned: False ignores all labels: each key has a random class, real labels
      are 0.
  """

  learned: bool = True

  @abc.abstractmethod
  def keys(self, tokens: np.ndarray, places: np.ndarray) -> np.ndarray:
    """[R, P] uint64 keys of places [R, P] of sequences [R, L]; any of DEAD."""

  def coins(self, seed: int) -> int:
    """Seed of the random classes of `adapt` with a seed."""
    return seed

  def _keys(self, tokens: np.ndarray, places: np.ndarray) -> np.ndarray:
    """[D, R, P] keys of D data sets."""
    if len(places) > 1 and tokens.strides[0] == places.strides[0] == 0:
      # All data sets are asked the same: followed once.
      return np.broadcast_to(self._keys(tokens[:1], places[:1]), places.shape)
    # [D R, L] tokens and [D R, P] places: data sets are just more rows.
    flat = tokens.reshape(-1, tokens.shape[2])
    hashed = self.keys(flat, places.reshape(len(flat), -1))
    return hashed.reshape(places.shape)

  def adapt(
    self,
    tasks: adapting.FewShotTasks | adapting.TaskStream,
    queries: adapting.QueryPoints,
    kind: adapting.LabelSpec,
    steps: tuple[int, ...],
    seed: int,
    config: adapting.FineTuneConfig = adapting.FINE_TUNE,
  ) -> adapting.Adapted:
    """See core.Adaptable: the commonest class, or the mean, of a key's labels.

    Scores are log numbers of labels, each half of one more, so that they are
    log shares but for a constant; a hashed class has half of one more again, so
    that it settles ties and stands where there is no label. Unseen keys of real
    labels get the mean of the data set. Steps make a difference in a stream
    alone, of which all sequences up to the step are looked up.
    """
    adapting.check_adapting(tasks, queries, kind, steps, config)
    seed = self.coins(seed)
    asked = self._keys(queries.tokens, queries.places)
    # One tally a data set: of the keys that are asked about, no others.
    notes = [
      _NOTES[type(kind)](asked[d], kind, seed, d) for d in range(len(asked))
    ]
    answers, done = [], 0
    for step in steps if isinstance(tasks, adapting.TaskStream) else (1,):
      for number in range(done, step if self.learned else done):
        batch = tasks
        if isinstance(tasks, adapting.TaskStream):
          batch = tasks.batch(number, kind)
        assert isinstance(batch, adapting.FewShotTasks)  # One or the other.
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
    return adapting.Adapted(outputs, np.full(len(steps), np.nan))


class _Votes:
  """Counts of labels by class, for the keys that are asked about."""

  def __init__(
    self, queries: np.ndarray, kind: adapting.Classes, seed: int, d: int
  ) -> None:
    """queries: [...] keys; seed, d: of coins."""
    # U distinct keys, H heads, k classes:
    #   _seen [U] ascending   _back [...] row of each query   _votes [U, H, k]
    self._seen, self._back = np.unique(queries, return_inverse=True)
    self._shape = (*queries.shape, kind.heads, kind.k)
    heads = np.arange(kind.heads)
    # [U, H]: a class for each key and head, the same in every call.
    coins = basics.hash64(seed, d, self._seen[:, None], heads)
    self._coin = (coins % np.uint64(kind.k)).astype(np.int64)
    self._votes = np.zeros((len(self._seen), kind.heads, kind.k))

  def add(self, labelled: np.ndarray, labels: np.ndarray) -> None:
    """Labels [T, H] of keys [T]."""
    place, asked = _match(self._seen, labelled)
    heads = np.arange(labels.shape[1])
    # add.at, not +=: a key may have several labels in one call.
    np.add.at(self._votes, (place[:, None], heads, labels[asked]), 1)

  def answers(self) -> np.ndarray:
    """[..., H, k] of the wanted keys."""
    # Half a vote for each class: log(0.5) without labels, never log(0).
    votes = self._votes + 0.5
    # rows, heads [U, H]: one more half vote, on the coin's class of each.
    rows, heads = np.indices(self._coin.shape)
    votes[rows, heads, self._coin] += 0.5
    return np.log(votes)[self._back].reshape(self._shape)


class _Means:
  """Means of labels, for the keys that are asked about."""

  def __init__(
    self, queries: np.ndarray, kind: adapting.Real, seed: int, d: int
  ) -> None:
    """queries: [...] keys; seed, d: not used, there are no coins."""
    self._seen, self._back = np.unique(queries, return_inverse=True)
    self._shape = (*queries.shape, kind.d)
    self._total = np.zeros((len(self._seen), kind.d))
    self._num = np.zeros((len(self._seen), 1))
    self._all, self._count = np.zeros(kind.d), 0

  def add(self, labelled: np.ndarray, labels: np.ndarray) -> None:
    """Labels [T, d] of keys [T]."""
    place, asked = _match(self._seen, labelled)
    np.add.at(self._total, place, labels[asked])
    np.add.at(self._num, place, 1)
    self._all += labels.sum(0, dtype=np.float64)
    self._count += len(labels)

  def answers(self) -> np.ndarray:
    """[..., d] of the wanted keys; the mean of all where none has a label."""
    # [U, d]: sums over counts; keys without a label get the overall mean.
    means = self._total / np.maximum(self._num, 1)
    means = np.where(self._num > 0, means, self._all / max(self._count, 1))
    return means[self._back].reshape(self._shape)


_NOTES: dict[type, Any] = {adapting.Classes: _Votes, adapting.Real: _Means}


def _match(
  seen: np.ndarray, labelled: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Places in `seen`, ascending, of the keys [T] that are there; and which."""
  # A key above all others would point behind the end; it matches nothing.
  place = np.minimum(np.searchsorted(seen, labelled), max(len(seen) - 1, 0))
  asked = (
    seen[place] == labelled if len(seen) else np.zeros(len(labelled), bool)
  )
  return place[asked], asked


# As the networks of wm, and as published: AdamW at a constant rate.
BETAS, DECAY, CLIP, DEVIATION = (0.9, 0.95), 0.1, 1.0, 0.02
ROWS = 16  # Sequences that a module of PyTorch reads at once.
# Tokens and places of the world -> ids and places of a module's own.
Written = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def tune_torch(
  module: Any,
  features: Callable[[Any, Any], Any],
  written: Written,
  draws: Draws,
  task: adapting.TaskSpec,
) -> Predict:
  """Fine-tunes a copy of a module with a new linear head on its features.

  Full batches or those of a stream, in evaluation mode: AdamW, with weight
  decay of matrices alone and gradients clipped by their norm.

  Args:
    module: of PyTorch; it stays as it is.
    features: (module, ids [R, K] on its device) -> [R, K, D].
    written: tokens and places as the module has them.
    draws: the labels.
    task: see adapting.TaskSpec.
  """
  torch: Any = sys.modules['torch']
  network, kind = copy.deepcopy(module).eval(), task.kind
  device = next(network.parameters()).device
  tunes_all = task.trainable == 'all'
  weights = [x for x in network.parameters() if x.is_floating_point()]
  for weight in weights:
    weight.requires_grad_(tunes_all)

  def on_device(array: np.ndarray) -> Any:
    return torch.as_tensor(array.astype(np.int64), device=device)

  def at(tokens: np.ndarray, places: np.ndarray) -> Any:
    """[R, P, D] features at places."""
    ids, ends = written(tokens, np.maximum(places, 0))
    with torch.set_grad_enabled(tunes_all and torch.is_grad_enabled()):
      x = features(network, on_device(ids))
    return x[on_device(np.arange(len(ids))[:, None]), on_device(ends)].float()

  first = draws.at(0)
  with torch.no_grad():
    width = at(first.tokens[:1], first.places[:1]).shape[-1]
  head = _torch_head(width, kind.outputs, task.seed).to(device)
  weights = [*head.parameters(), *(weights if tunes_all else [])]
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
