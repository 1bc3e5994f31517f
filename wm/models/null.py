"""Models without learning whose errors have a known structure: null models.

Much of what a metric shows follows from how much a model errs, whatever it has
learned. A null errs as much as a trained model, in excess loss or in
probability of illegal tokens, and at random. A value that a null reaches too is
no sign of a world model.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import ClassVar

import numpy as np
import scipy

from wm import core
from wm.core import basics, registry
from wm.core.fields import field, field_error
from wm.models.serving import process

KINDS = 'prefix', 'state', 'token', 'recency', 'support'
# Sequences on which the errors are calibrated, and most positions of these.
_SEQUENCES, _POSITIONS = 256, 2048
# Halvings of the share of random probability.
_HALVINGS = 40


class Null(process.ProcessPredictor):
  """The sampler's probabilities with random errors.

  With p the probabilities of the replanning Bayes predictor, or of the oracle
  where it is not known, and g, g' standard normal numbers for each token:

    (1 - share) * softmax(log p + sqrt(2 share) g) + share * softmax(spread g')

  Both parts cost about as much loss. The numbers are a hash of the token and of
  what `kind` names.

  state  that of p      | world's state | hash of the tokens, or the last k
  words  W              | W'            | 2 or k
  """

  def __init__(
    self,
    world: core.World,
    base: process.ProcessPredictor,
    model: Model,
    seed: int,
  ) -> None:
    """base: gives p; model: the kind and k of the errors; seed: of these."""
    self.world, self.base, self.model, self.seed = world, base, model, seed
    self.vocab_size, self.end = len(world.vocab), world.end
    self.max_len, self.share = world.max_len, 0.0
    self.many_states = model.kind in ('prefix', 'recency')
    # Words of 32 bits, whatever the type of the state of p.
    self._dtype = base.init(1).dtype
    self._words = _words(base.init(1)).shape[1]
    self._world_words = world.init(1).shape[1]

  def init(self, batch: int) -> np.ndarray:
    """See core.SequenceProcess."""
    history = np.zeros((batch, max(2, self.model.k)), np.int32)
    parts = _words(self.base.init(batch)), self.world.init(batch), history
    return np.concatenate(parts, axis=1)

  def _split(self, memory: np.ndarray) -> tuple[np.ndarray, ...]:
    """State of p, state of the world, and history."""
    ends = self._words, self._words + self._world_words
    law, states, history = np.split(memory, ends, axis=1)
    return np.ascontiguousarray(law).view(self._dtype), states, history

  def advance(self, memory: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """See core.SequenceProcess."""
    law, states, history = self._split(memory)
    if self.model.kind == 'recency':
      history = np.concatenate([history[:, 1:], tokens[:, None]], axis=1)
    elif self.model.kind == 'prefix':  # Others have fewer states without it.
      hashed = np.ascontiguousarray(history[:, :2]).view(np.uint64)[:, 0]
      after = basics.hash64(hashed, tokens)[:, None].view(np.int32)
      history = np.concatenate([after, history[:, 2:]], axis=1)
    parts = (
      _words(self.base.advance(law, tokens)),
      self.world.advance(states, tokens),
      history.astype(np.int32),
    )
    return np.concatenate(parts, axis=1)

  def next(self, memory: np.ndarray) -> process.NextTokens:
    """See core.SequenceProcess."""
    law, states, history = self._split(memory)
    probs = np.exp(
      self.base.next(law).dense(self.vocab_size).astype(np.float64)
    )
    keys = self._keys(states, history)
    with np.errstate(divide='ignore'):
      return process.all_tokens(
        np.log(self.wrong(probs, keys, self.share)).astype(np.float32)
      )

  def _keys(self, states: np.ndarray, history: np.ndarray) -> np.ndarray:
    """[R] uint64 on which the errors of a prefix depend."""
    match self.model.kind:
      case 'state':
        return self.world.state_id(states).astype(np.uint64)
      case 'prefix':
        return np.ascontiguousarray(history[:, :2]).view(np.uint64)[:, 0]
      case 'recency':
        return basics.hash64(*history[:, -self.model.k :].T)
    return np.zeros(len(states), np.uint64)

  def wrong(
    self, probs: np.ndarray, keys: np.ndarray, share: float
  ) -> np.ndarray:
    """[R, V] probabilities with errors in place of probs [R, V]."""
    alive = probs.any(-1, keepdims=True)
    if self.model.kind == 'support':
      even = np.full(self.vocab_size, 1 / (self.vocab_size - 1))
      even[core.PAD] = 0
      return np.where(alive, probs, even)
    tokens, seed = np.arange(self.vocab_size), self.seed
    normal, other = (
      scipy.special.ndtri(
        np.clip(
          basics.uniforms(seed, word, keys[:, None], tokens), 1e-9, 1 - 1e-9
        )
      )
      for word in (1, 2)
    )
    with np.errstate(divide='ignore'):
      right = scipy.special.log_softmax(
        np.where(alive, np.log(probs), 0) + np.sqrt(2 * share) * normal, axis=-1
      )
    # A sequence does not contain padding.
    other[:, core.PAD] = -np.inf
    random = scipy.special.softmax(self.model.spread * other, axis=-1)
    mixed = (1 - share) * np.exp(right) + share * random
    return np.where(alive, mixed, probs)

  def calibrate(self) -> None:
    """Sets the share of errors that the model's target asks for.

    Raises:
      InputError: no share reaches it.
    """
    if self.model.kind == 'support':
      return
    model, target = self.model, self.model.illegal_mass or self.model.excess
    probs, legal, keys = self._positions()

    def error(share: float) -> float:
      """Mean excess loss, or mean probability of illegal tokens."""
      wrong = self.wrong(probs, keys, share)
      if model.illegal_mass:
        return float(np.where(legal, 0, wrong).sum(-1).mean())
      ratio = np.where(probs > 0, probs / np.maximum(wrong, 1e-300), 1)
      return float((probs * np.log(ratio)).sum(-1).mean())

    low, high = 0.0, 0.999
    if error(high) < target:
      raise core.InputError(
        f'{registry.spec(model)}: its errors reach {error(high):.3f} at most; '
        'expected a smaller excess loss or probability of illegal tokens'
      )
    for _ in range(_HALVINGS):
      self.share = (low + high) / 2
      if error(self.share) < target:
        low = self.share
      else:
        high = self.share

  def _positions(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """p [R, V], legal tokens [R, V] and keys [R] at sampled positions."""
    sequences = self.world.sample(_SEQUENCES, self.seed, split='heldout')
    memory, parts = self.init(len(sequences)), []
    for t in range(sequences.tokens.shape[1]):
      rows = np.flatnonzero(t + 1 < sequences.lengths)
      memory[rows] = self.advance(memory[rows], sequences.tokens[rows, t])
      if t + 1 >= max(self.world.prompt_len, 1):
        parts.append(memory[rows])
    every = np.concatenate(parts)
    # Evenly spaced, as neighbours are alike.
    every = every[np.linspace(0, len(every) - 1, _POSITIONS).astype(int)]
    law, states, history = self._split(every)
    probs = self.base.next(law).dense(self.vocab_size).astype(np.float64)
    return (
      np.exp(probs),
      self.world.legal(states),
      self._keys(states, history),
    )


def _words(states: np.ndarray) -> np.ndarray:
  """States [R, W] of any type as int32 words."""
  return np.ascontiguousarray(states).view(np.int32)


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """Errs as much as a trained model, at random, and has learned nothing.

  Attributes:
    kind: what the errors are a function of: the 'prefix', the 'state', the
      'token' alone (the same errors everywhere), or the last k tokens
      ('recency'). 'support': no errors after prefixes that the sampler draws,
      and uniform probabilities after all others.
    excess: excess loss in nats a token, over the Bayes predictor's, or over the
      oracle's in worlds whose distribution is not known.
    illegal_mass: probability of illegal tokens, a mean over positions, in place
      of `excess`.
    like: folder of a scored run in place of both: its excess loss, of
      excess_loss(), or else its probability of illegal tokens, of next_token().
    k: tokens that 'recency' remembers.
    spread: standard deviation of the logits of random tokens. Of 3 few tokens
      have most of the probability and are accepted; of 1 many are, so that a
      model that errs much accepts nearly everything, as an untrained one does.
  """

  gives: ClassVar[tuple[type, ...]] = (Null,)

  kind: str = field('prefix', choices=KINDS)
  excess: float = field(0.05, least=0)
  illegal_mass: float = field(0.0, least=0, below=1)
  like: str = ''
  k: int = field(4, least=1)
  spread: float = field(3.0, least=0)

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.illegal_mass and self.like:
      raise field_error(self, 'illegal_mass like', 'one of the two')

  def undeclared_inputs(self) -> str:
    """See core.Model."""
    return f'it reads {self.like}/scores.json' if self.like else ''

  def predictor(self, world: core.World, seed: int) -> core.Predictor:
    """See core.Model; InputError if no share of errors reaches the target."""
    base = 'oracle()'
    if isinstance(world, core.Generative):
      # Off the sampler's support it goes on as a planner with the map would,
      # but for the null that knows nothing there.
      base = 'bayes()' if self.kind == 'support' else "bayes(off='replan')"
    right = registry.make('model', base).predictor(world, seed)
    null = Null(world, right, self.fixed(world), seed)
    null.calibrate()
    return null

  def fixed(self, world: core.World) -> Model:
    """The model with numbers in place of `like`.

    Raises:
      InputError: the folder's scores have neither number.
    """
    if not self.like:
      return self
    path = pathlib.Path(self.like, 'scores.json')
    with core.inputs.reading(str(path), 'the scores of a run'):
      entries = json.loads(path.read_text(encoding='utf-8'))
      values = {entry['quantity']: entry['value'] for entry in entries}
    excess, legal = values.get('excess_loss'), values.get('valid_mass')
    if isinstance(world, core.Generative) and excess is not None:
      more = {'excess': max(round(excess, 6), 0.0)}
    elif legal is not None:
      more = {'excess': 0.0, 'illegal_mass': max(round(1 - legal, 6), 0.0)}
    else:
      raise core.InputError(
        f'{path} has no excess_loss and no valid_mass; expected a run that '
        'excess_loss() or next_token() scored'
      )
    return dataclasses.replace(self, like='', **more)
