"""Known-answer models of equal behaviour that use different activations.

All predict every next token correctly, so no test of behaviour separates them.
They read different parts of their activations:

  activations  (state, sign * state) in a random rotation; sign is +1 or -1, by
               a hash of the prefix, so that no linear map reads the second copy
  used         reads the first copy
  decoy        reads the second copy, whatever its sign
  fragile      reads both, and guesses where they disagree
  ignored      reads neither
  legal_only   has other activations: only the set of legal next tokens

They test what `probe` and `intervention` detect and miss.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.core import basics, capabilities, registry
from wm.core.fields import field
from wm.models.serving import oracles, process

KINDS = 'used', 'ignored', 'decoy', 'fragile', 'legal_only'
MOST = 4096  # Limit of enumerated states.
# Log-odds between two readings of the state that differ in one label.
SHARP = 30.0
LEAST = 1e-30  # Probability whose logarithm replaces minus infinity.


class _Tables(NamedTuple):
  """Tables of S states; rows S and S + 1 are dead and broken.

  Attributes:
    next: [S + 2, V] int32 row after each token.
    probs: [S + 2, V] float32 probabilities of the next token.
    codes: [S, F] float32 encoding of each state in activations.
    likely: [F, V] float32 probabilities of the next token for each legal set,
      if codes are legal sets.
    rotation: [D, D] float32, orthonormal.
  """

  next: np.ndarray
  probs: np.ndarray
  codes: np.ndarray
  likely: np.ndarray
  rotation: np.ndarray


def _enumerated(world: core.World) -> tuple[np.ndarray, np.ndarray]:
  """States [S, W] in order of their ids, and [S, V - 1] states after tokens."""
  try:
    states, delta = capabilities.enumerated(world, MOST)
  except core.InputError as error:
    raise core.InputError(
      f'toy: {registry.spec(world)} has more than {MOST:,} states; expected '
      'a world with fewer, such as lattice(), maps(rows=4, columns=4) or '
      'automaton()'
    ) from error
  order = np.argsort(world.state_id(states))
  after = np.argsort(order)[delta[order]]
  return states[order], np.where(delta[order] == core.DEAD, core.DEAD, after)


def _codes(world: core.World, states: np.ndarray) -> np.ndarray:
  """[S, F] one-hot labels of states [S, W], plus one that separates equals."""
  none = np.zeros((len(states), 0), np.int64)
  labels = world.labels(states) if isinstance(world, core.Labelled) else none
  # States with equal labels become neighbours, in the order of their numbers.
  order = np.lexsort((np.arange(len(states)), *labels.T))
  alike = (np.diff(labels[order].astype(np.int64), axis=0) == 0).all(1)
  # The index of a state among those with equal labels: 0, 1, ...
  number = np.zeros(len(states), np.int64)
  for before, after, same in zip(order, order[1:], alike, strict=False):
    number[after] = number[before] + 1 if same else 0
  columns = [np.unique(x, return_inverse=True)[1] for x in (*labels.T, number)]
  # A constant label has no information.
  hot = [np.eye(x.max() + 1)[x] for x in columns if x.max() or len(x) == 1]
  return np.concatenate(hot, axis=1).astype(np.float32)


class Toy(oracles.WorldPredictor, core.HiddenStates):
  """The oracle, with the same activations at every layer."""

  def __init__(self, world: core.World, kind: str, seed: int) -> None:
    """kind: of KINDS; seed: of the rotation and the signs."""
    super().__init__(world)
    self.kind, self._seed = kind, seed
    states, after = _enumerated(world)
    self._ids, size = world.state_id(states), len(states)
    legal = world.legal(states)
    # Illegal tokens lead to the dead row; the broken row leads to itself.
    following = np.full((size + 2, self.vocab_size), size, np.int32)
    following[-1] = size + 1
    following[:size, 1:] = np.where(after == core.DEAD, size, after)
    probs = np.zeros(following.shape, np.float32)
    probs[:size] = np.exp(oracles.likely(world, states).dense(self.vocab_size))
    probs[-1, 1:] = 1 / (self.vocab_size - 1)  # The broken row guesses.
    first, group = np.unique(
      legal, axis=0, return_index=True, return_inverse=True
    )[1:]
    self._legal_set = group.reshape(-1)
    codes = _codes(world, states)
    if kind == 'legal_only':
      codes = np.eye(len(first), dtype=np.float32)[group.reshape(-1)]
    width = codes.shape[1] * (1 if kind == 'legal_only' else 2)
    # Rotated, so that no single unit of an activation is a label.
    noise = np.random.default_rng(seed).normal(size=(width, width))
    rotation = np.linalg.qr(noise)[0].astype(np.float32)
    self._tables = _Tables(following, probs, codes, probs[first], rotation)

  def support(
    self, states: np.ndarray, history: np.ndarray
  ) -> process.NextTokens:
    """See WorldPredictor: the rules."""
    del history
    return oracles.likely(self.world, states)

  def keys(self, tokens: np.ndarray, places: np.ndarray) -> np.ndarray:
    """See few_shot.KeyTable: states, or legal sets for `legal_only`."""
    if self.kind != 'legal_only':
      return super().keys(tokens, places)
    memory = self.after_each(tokens, places.max(1, initial=core.DEAD) + 1)
    at = memory[np.arange(len(tokens))[:, None], np.maximum(places, 0)]
    rows = self._rows(at.reshape(-1, at.shape[-1])).reshape(places.shape)
    # The legal set of the dead state is empty.
    return np.append(self._legal_set, -1)[rows].astype(np.int64).view(np.uint64)

  def _rows(self, states: np.ndarray) -> np.ndarray:
    """[B] int64 table rows of states [B, W]."""
    ids = self.world.state_id(states)
    row = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
    return np.where(self._ids[row] == ids, row, len(self._ids))

  def _signs(self, tokens: np.ndarray) -> np.ndarray:
    """Signs [B, L] float32, +1 or -1, by the tokens [B, L] so far."""
    # A hash of the whole prefix: the sign does not follow from the state.
    history = np.full(len(tokens), self._seed, np.uint64)
    signs = np.ones(tokens.shape, np.float32)
    for t, column in enumerate(tokens.T):
      history = basics.hash64(history, column)
      signs[:, t] -= 2 * (history % np.uint64(2)).astype(np.float32)
    return signs

  def hidden(
    self, tokens: np.ndarray, lengths: np.ndarray, layer: int
  ) -> np.ndarray:
    """[B, L, D] float32, the same at every layer; 0 in dead states."""
    del layer
    memory = self.after_each(tokens, lengths)
    rows = self._rows(memory.reshape(-1, memory.shape[-1]))
    codes = np.pad(self._tables.codes, ((0, 1), (0, 0)))[rows]
    codes = codes.reshape(*tokens.shape, -1)
    if self.kind != 'legal_only':
      signed = self._signs(tokens)[..., None] * codes
      codes = np.concatenate([codes, signed], axis=-1)
    # Activations beyond a sequence's length are 0.
    used = np.arange(tokens.shape[1]) < np.asarray(lengths)[:, None]
    return codes * used[..., None] @ self._tables.rotation

  def memory(self) -> core.HiddenStates:
    """See core.HiddenStates: itself, as states read from patches persist."""
    return self

  def patched(
    self,
    tokens: np.ndarray,
    lengths: np.ndarray,
    layer: int,
    hidden: np.ndarray,
  ) -> np.ndarray:
    """See core.HiddenStates; a state read from a patch persists."""
    out = np.array(self.log_probs(tokens, lengths))
    if self.kind == 'ignored':
      return out
    moves = hidden - self.hidden(tokens, lengths, layer)
    touched = (moves != 0).any(-1)
    if self.kind != 'legal_only':
      # A state read from a patch persists; a legal set does not.
      touched = np.logical_or.accumulate(touched, axis=1)
    for rows in self._chunks(tokens):
      probs = np.stack(
        [step.probs for step in self._follow(tokens[rows], moves[rows])], 1
      )
      with np.errstate(divide='ignore'):
        after = np.log(np.where(probs > LEAST, probs, 0))
      out[rows] = np.where(touched[rows, :, None], after, out[rows])
    return out

  def patched_gradient(
    self,
    tokens: np.ndarray,
    lengths: np.ndarray,
    layer: int,
    hidden: np.ndarray,
    weights: np.ndarray,
  ) -> np.ndarray:
    """See core.HiddenStates."""
    moves = hidden - self.hidden(tokens, lengths, layer)
    gradient = np.zeros_like(hidden)
    for rows in self._chunks(tokens) if self.kind != 'ignored' else ():
      steps = self._follow(tokens[rows], moves[rows])
      # Gradient of later steps with respect to the belief after a step.
      later = np.zeros((len(moves[rows]), len(self._tables.next)))
      # Backwards through time, since steps pass on their belief.
      for t, step in reversed([*enumerate(steps)]):
        direct = weights[rows, t] / (step.probs + LEAST)
        by, before = step.pull(direct, later)
        gradient[rows, t] = by @ self._tables.rotation
        later = np.take_along_axis(
          before, self._tables.next[:, tokens[rows, t]].T, axis=1
        )
    return gradient

  def _follow(self, tokens: np.ndarray, moves: np.ndarray) -> list[_Step]:
    """Follows tokens [B, L] with changes [B, L, D] of the activations."""
    tables = self._tables
    belief = np.zeros((len(tokens), len(tables.next)))
    belief[:, self._rows(self.world.init(1))[0]] = 1
    by, signs, steps = moves @ tables.rotation.T, self._signs(tokens), []
    for t, token in enumerate(tokens.T):
      before = np.zeros_like(belief)
      row, old = np.nonzero(belief > LEAST)
      # Several states may lead to one state: their beliefs add up.
      np.add.at(before, (row, tables.next[old, token[row]]), belief[row, old])
      moved = (moves[:, t] != 0).any(-1)
      read = _read_legal if self.kind == 'legal_only' else _read_state
      steps.append(
        read(self.kind, tables, before, by[:, t], signs[:, t], moved)
      )
      belief = steps[-1].belief
    return steps

  def _chunks(self, tokens: np.ndarray) -> list[slice]:
    # Limits the memory of beliefs and probabilities, 8 bytes each.
    size = tokens.shape[1] * (len(self._ids) + self.vocab_size)
    return [*core.predictor.chunks(len(tokens), 8 * size)]


class _Step(NamedTuple):
  """The result of one token in B sequences.

  Attributes:
    belief: [B, S + 2] probabilities of the tables' rows.
    probs: [B, V] probabilities of the next token.
    pull: vector-Jacobian product: gradients for `probs` and `belief` ->
      gradients for the change [B, D] and for the belief before it.
  """

  belief: np.ndarray
  probs: np.ndarray
  pull: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def _softmax(score: np.ndarray) -> np.ndarray:
  mass = np.exp(SHARP * (score - score.max(-1, keepdims=True)))
  return mass / mass.sum(-1, keepdims=True)


def _through(read: np.ndarray, gradient: np.ndarray) -> np.ndarray:
  """Gradient of the softmax [B, S] with respect to its scores."""
  return SHARP * read * (gradient - (gradient * read).sum(-1, keepdims=True))


def _read_legal(
  kind: str,
  tables: _Tables,
  belief: np.ndarray,
  by: np.ndarray,
  sign: np.ndarray,
  moved: np.ndarray,
) -> _Step:
  """Reads the legal set from the activation; the state does not change."""
  del kind, sign, moved
  read = _softmax(belief[:, : len(tables.codes)] @ tables.codes + by)

  def pull(
    direct: np.ndarray, later: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    return _through(read, direct @ tables.likely.T), later

  return _Step(belief, read @ tables.likely, pull)


def _read_state(
  kind: str,
  tables: _Tables,
  belief: np.ndarray,
  by: np.ndarray,
  sign: np.ndarray,
  moved: np.ndarray,
) -> _Step:
  """Reads the state again from activations that have changed.

  belief: [B, S + 2]; by: [B, D]; sign: [B]; moved: [B] bool.
  """
  codes, size = tables.codes, len(tables.codes)
  # Most steps have no change: the belief follows the rules.
  if not moved.any():
    whole = np.zeros_like(by)
    return _Step(
      belief,
      belief @ tables.probs,
      lambda direct, later: (whole, direct @ tables.probs.T + later),
    )
  code = belief[:, :size] @ codes
  first, second = np.split(by, 2, axis=1)
  linear = (code + first) @ codes.T
  signed = (sign[:, None] * code + second) @ codes.T
  score = np.full(belief.shape, -np.inf)
  # Scores of each state's labels, from the copy that is read.
  by_first = {'used': linear < np.inf, 'decoy': linear == np.inf}.get(
    kind, linear < np.abs(signed)
  )
  score[:, :size] = np.where(by_first, linear, np.abs(signed))
  if kind == 'fragile':
    # If the copies agree on a state, each of its labels scores 1; less: broken.
    score[:, -1] = codes[0].sum() - 0.5
  # Sequences without a change at this step keep their belief.
  read = _softmax(score)
  after = np.where(moved[:, None], read, belief)

  def pull(
    direct: np.ndarray, later: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    """See _Step."""
    whole = direct @ tables.probs.T + later
    scores = _through(read, whole)[:, :size] * moved[:, None]
    copies = (
      scores * by_first @ codes,
      scores * ~by_first * np.sign(signed) @ codes,
    )
    before = np.where(moved[:, None], 0, whole)
    before[:, :size] += (copies[0] + sign[:, None] * copies[1]) @ codes.T
    return np.concatenate(copies, axis=1), before

  return _Step(after, after @ tables.probs, pull)


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """Models of the same behaviour that use different parts of their activations.

  All follow the rules, so every metric of behaviour scores them like the
  oracle. The world may have at most 4,096 reachable states. Activations contain
  the state twice: a plain copy, and a copy whose sign depends on the prefix.
  All kinds but `legal_only` have the same activations, so no probe separates
  them.

  used: reads the plain copy, as a linear probe does. An edit to another state
    changes all later predictions.
  ignored: reads neither copy. Edits have no effect.
  decoy: reads the signed copy, which linear maps cannot read. A probe decodes
    the state correctly, but edits along its directions have no effect.
    Replacing both copies by those of another sequence has an effect.
  fragile: reads both copies, and guesses from then on if they disagree. Edits
    of one copy break the model; replacing both copies has the right effect.
  legal_only: activations contain, and the model reads, only the set of legal
    next tokens. Edits affect one token; states with equal legal tokens are
    not distinguished.

  Attributes:
    kind: the model, a name of the list above.
  """

  gives: ClassVar[tuple[type, ...]] = (Toy,)

  kind: str = field('used', choices=KINDS)

  def predictor(self, world: core.World, seed: int) -> Toy:
    """See core.Model; seed: of the rotation and the signs.

    Raises InputError where the world has more than MOST reachable states.
    """
    return Toy(world, self.kind, seed)
