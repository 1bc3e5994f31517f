"""Hidden Markov processes: the state is the belief about a hidden state.

    hidden state   i ------> j ------> k        never shown
    tokens             x         y
    belief         b  ->  b T(x)  ->  b T(x) T(y), each divided by its sum

T(x)[i, j] is the probability of emitting x and going to j from i. The belief is
the exact posterior of the hidden state given the tokens. It determines the
distribution of all later tokens, and the next token alone updates it, so it is
the state of this world. The beliefs of 'mess3' form a fractal in the triangle
of three hidden states, and no two histories share one; 'rrxor' has 36 beliefs
(Shai et al. 2024, Transformers represent belief state geometry in their
residual stream).

Beliefs are float64; a state holds their bits, two int32 words each. They are
rounded to BITS, so that histories with one belief have one state although their
sums round differently.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.core import basics, inputs, resources
from wm.core.fields import field, field_error
from wm.worlds.base import sampling, svg

BITS = 40  # Bits of the mantissa of a probability.
DIGITS = 14  # Digits of a written probability, enough for BITS.
KEYS = ('matrices', 'states', 'start')
TOLERANCE = 1e-6  # Tolerance of sums of probabilities in a file.


class HiddenMarkovProcess(NamedTuple):
  """A hidden Markov process with V tokens and S hidden states.

  Attributes:
    tokens: [V] names.
    states: [S] names.
    matrices: [V, S, S] float64, P(emit x and go to j | i).
    start: [S] float64 distribution of the first hidden state.
  """

  tokens: tuple[str, ...]
  states: tuple[str, ...]
  matrices: np.ndarray
  start: np.ndarray


def mess3(x: float = 0.05, a: float = 0.85) -> dict[str, Any]:
  """Three states, each of which prefers a token (Shai et al. 2024, A.3).

  x: probability of going to each other state.
  a: probability of emitting the token of the next state.
  """
  moves = np.full((3, 3), x) + (1 - 3 * x) * np.eye(3)
  emits = np.full((3, 3), (1 - a) / 2) + (3 * a - 1) / 2 * np.eye(3)
  matrices = moves * emits.T[:, None]
  return {'matrices': dict(zip('ABC', matrices, strict=True))}


def _edges(text: str) -> dict[str, Any]:
  """A process from edges 'FROM TOKEN TO, ..'; a state's edges are uniform."""
  edges = [edge.split() for edge in text.split(', ')]
  sources, tokens, _ = zip(*edges, strict=True)
  states = list(dict.fromkeys(sources))
  matrices = {x: np.zeros((len(states),) * 2) for x in sorted({*tokens})}
  for source, token, target in edges:
    place = states.index(source), states.index(target)
    matrices[token][place] = 1 / sources.count(source)
  return {'matrices': matrices, 'states': states}


PRESETS = {
  'mess3': mess3,
  # S, then two random bits; T and F emit their exclusive or.
  'rrxor': lambda: _edges(
    'S 0 S0, S 1 S1, S0 0 F, S0 1 T, S1 0 T, S1 1 F, T 1 S, F 0 S'
  ),
  # A zero, a one and a random bit (figure 2).
  'z1r': lambda: _edges('Z 0 O, O 1 R, R 0 Z, R 1 Z'),
}


def _probabilities(where: str, value: Any, *shape: int) -> np.ndarray:
  """Numbers of a shape, float64; raises InputError."""
  expected = f'{" x ".join(map(str, shape))} numbers from 0 to 1'
  with inputs.reading(where, expected):
    numbers = np.array(value, np.float64)
  bad = numbers[~((numbers >= 0) & (numbers <= 1 + TOLERANCE))]
  if numbers.shape != shape or bad.size:
    holds = f'holds {bad[0]:g}' if bad.size else f'has shape {numbers.shape}'
    raise core.InputError(f'{where} {holds}; expected {expected}')
  return numbers


def read_process(name: str, parts: Any) -> HiddenMarkovProcess:
  """Reads a process from a JSON object with a matrix for each token.

      {"matrices": {"dry": [[0.1, 0.0], [0.1, 0.8]],
                    "wet": [[0.6, 0.3], [0.1, 0.0]]},
       "states": ["rain", "sun"],
       "start": [0.5, 0.5]}

  matrices: entry [i][j] of a token's matrix is P(token, state j | state i). So
      row i of all matrices together sums to 1.
  states: names; by default s0, s1, ...
  start: distribution of the first state; by default the stationary one. There
      is one where a single class of states is never left. States outside it
      have probability 0.

  Args:
    name: of the file or preset, for errors.
    parts: its value.

  Raises:
    InputError: probabilities have another shape, are negative or do not sum to
      1; or there is no start and no single stationary distribution. The message
      names processes that stop.
  """
  matrices = parts.get('matrices') if isinstance(parts, dict) else None
  if not isinstance(matrices, dict) or set(parts) - {*KEYS}:
    raise core.InputError(
      f'{name} holds {parts!r:.60}; expected an object of matrices (a matrix '
      'for each token) and, if need be, states and start'
    )
  bad = [x for x in matrices if x.split() != [x] or x == '<pad>']
  if bad or not matrices:
    raise core.InputError(f'{name}: tokens {bad!r:.60}; expected words')
  with inputs.reading(name, 'a hidden Markov process'):
    size = len(next(iter(matrices.values())))
  states = parts.get('states') or [f's{row}' for row in range(size)]
  texts = isinstance(states, list) and all(isinstance(x, str) for x in states)
  if not (texts and len(set(states)) == len(states) == size > 0):
    raise core.InputError(
      f'{name}: states are {states!r:.60}; expected {size} different names, '
      'one for each row of a matrix'
    )
  joint = np.stack(
    [
      _probabilities(f'{name}: the matrix of {token!r}', matrix, size, size)
      for token, matrix in matrices.items()
    ]
  )
  total = joint.sum((0, 2))
  if (off := np.abs(total - 1) > TOLERANCE).any():
    row = int(off.argmax())
    stops = (
      '; it is a process that stops: with the rest of the probability, '
      'sequences end; add a token for the end, which leads to a state that '
      'emits it for ever'
    )
    raise core.InputError(
      f'{name}: the rows of state {states[row]!r} sum to {total[row]:g} over '
      'all tokens and next states; expected 1'
      + stops
      * bool((total <= 1 + TOLERANCE).all())
    )
  joint /= total[:, None]
  if parts.get('start') is None:
    start = _stationary(name, states, joint)
  else:
    start = _probabilities(f'{name}: start', parts['start'], size)
  if not abs(start.sum() - 1) <= TOLERANCE:
    raise core.InputError(f'{name}: start sums to {start.sum():g}; expected 1')
  start = rounded(start / start.sum())
  return HiddenMarkovProcess((*matrices,), (*states,), joint, start)


def _stationary(name: str, states: list[str], joint: np.ndarray) -> np.ndarray:
  """[S] stationary distribution; raises InputError unless it is unique."""
  moves, identity = joint.sum(0), np.eye(len(states))
  reached = identity + moves > 0
  for _ in range(len(states).bit_length()):  # Paths of 1, 2, 4, .. steps.
    reached = reached @ reached
  # Recurrent states: every state that they reach leads back.
  stays = np.flatnonzero((reached <= reached.T).all(1))
  apart = stays[~reached[stays[0], stays]]
  if apart.size:
    raise core.InputError(
      f'{name}: states {states[stays[0]]!r} and {states[apart[0]]!r} never '
      'lead to each other, and neither is left for good, so that no single '
      'distribution is stationary; expected "start"'
    )
  # start (moves - 1) = 0 is of rank S - 1: its last column becomes sum 1.
  system = (moves - identity)[np.ix_(stays, stays)]
  system[:, -1] = 1
  start = np.zeros(len(states))
  start[stays] = np.linalg.solve(system.T, np.eye(len(stays))[-1])
  return start


def rounded(values: np.ndarray) -> np.ndarray:
  """Numbers with BITS of their mantissa, of any shape."""
  mantissa, exponent = np.frexp(values)
  return np.ldexp(np.rint(np.ldexp(mantissa, BITS)), exponent - BITS)


class Filter(core.SequenceProcess):
  """The exact Bayes predictor; memory is the belief [B, S] float64.

  After an impossible token the belief is NaN, and no token is possible. Sums
  run state by state, so that a row does not depend on its batch.
  """

  def __init__(self, source: HiddenMarkovProcess) -> None:
    """source: the process whose tokens are read."""
    self._matrices, self._start = source.matrices, source.start
    self._emits = source.matrices.sum(2)  # [V, S].

  def init(self, batch: int) -> np.ndarray:
    """The distribution of the first hidden state."""
    return np.tile(self._start, (batch, 1))

  def advance(self, memory: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """The belief times the token's matrix, divided by its sum."""
    labels = np.asarray(tokens) - 1
    ok = (labels >= 0) & (labels < len(self._matrices))
    labels = np.where(ok, labels, 0)
    joint = np.zeros_like(memory)
    for row in range(memory.shape[1]):
      joint += memory[:, row, None] * self._matrices[labels, row]
    total = joint.sum(1)
    ok &= total > 0  # NaN is not.
    belief = rounded(joint / np.where(ok, total, 1)[:, None])
    return np.where(ok[:, None], belief, np.nan)

  def odds(self, memory: np.ndarray) -> np.ndarray:
    """[B, V] float64 probabilities of the next token, padding not included."""
    odds = np.zeros((len(memory), len(self._emits)))
    for row in range(memory.shape[1]):
      odds += memory[:, row, None] * self._emits[:, row]
    return np.nan_to_num(odds)

  def next(self, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """See core.SequenceProcess."""
    tokens = np.arange(1, len(self._emits) + 1)
    return sampling.normalised(self.odds(memory), tokens)

  def belief(self, memory: np.ndarray) -> np.ndarray:
    """The memory itself."""
    return memory


@dataclasses.dataclass(frozen=True)
class World(sampling.UniformPlay, core.Latent, core.Written):
  """Tokens of a hidden Markov process, started from its stationary state.

  Attributes:
    preset: a process instead of a file: 'mess3': three states, each of which
      prefers a token; 'rrxor': two random bits and their exclusive or; 'z1r':
      a zero, a one and a random bit. '' without a file is mess3.
  """

  noun: ClassVar[str] = 'this hidden Markov process'

  preset: str = field('', choices=tuple(PRESETS), also=('',))
  file: str = field(
    '', 'JSON file of the matrices', format=f'{__name__}.read_process'
  )
  length: int = field(10, 'tokens of every sequence', least=2, unit='tokens')

  def cost(self, world: core.World | None = None) -> core.Cost:
    """See core.Bounded."""
    del world
    return resources.sequences_cost(self.length, 'length')

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.preset and self.file:
      raise field_error(self, 'preset file', 'one of these alone')

  @functools.cached_property
  def process(self) -> HiddenMarkovProcess:
    """The hidden process; raises InputError for a bad file."""
    name = self.file or self.preset or 'mess3'
    parts = inputs.read_json(name) if self.file else PRESETS[name]()
    return read_process(name, parts)

  @functools.cached_property
  def filter(self) -> Filter:
    """The belief after tokens, and the prediction from it."""
    return Filter(self.process)

  def sequence_process(self, replan: bool) -> core.SequenceProcess:
    """See sampling.UniformPlay; no prediction after an impossible token."""
    del replan
    return self.filter

  @functools.cached_property
  def vocab(self) -> tuple[str, ...]:
    """'<pad>' and the tokens of the process."""
    return ('<pad>', *self.process.tokens)

  @property
  def max_len(self) -> int:
    """The length of every sequence."""
    return self.length

  # States are beliefs.

  def init(self, batch: int) -> np.ndarray:
    """[batch, 2 S] the distribution of the first hidden state."""
    return _words(self.filter.init(batch))

  def advance(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """By Bayes' rule."""
    return _words(self.filter.advance(_beliefs(states), tokens))

  def legal(self, states: np.ndarray) -> np.ndarray:
    """[B, V] bool: tokens of probability above 0."""
    return np.pad(self.filter.odds(_beliefs(states)) > 0, ((0, 0), (1, 0)))

  def state_id(self, states: np.ndarray) -> np.ndarray:
    """[B] int64, a hash of the belief."""
    hashed = (basics.hash64(*states.T) >> np.uint64(1)).astype(np.int64)
    return np.where(np.isnan(_beliefs(states)[:, 0]), core.DEAD, hashed)

  def format(self, state: np.ndarray) -> str:
    """The belief, such as 'rain 0.25, sun 0.75'."""
    belief = _beliefs(state[None])[0].tolist()
    if np.isnan(belief[0]):
      return 'dead'
    pairs = zip(self.process.states, belief, strict=True)
    return ', '.join(f'{name} {share:.{DIGITS}g}' for name, share in pairs)

  def render(self, state: np.ndarray) -> str:
    """The belief, a line for each hidden state."""
    return svg.card(self.format(state).split(', '))

  def parse(self, text: str) -> np.ndarray:
    """See core.Written; states with probability 0 may be omitted."""
    shares = dict.fromkeys(self.process.states, 0.0)
    if text.strip() == 'dead':
      return np.full((1, 2 * len(shares)), core.DEAD, np.int32)
    with inputs.reading(repr(text), "a belief such as 's0 0.25, s1 0.75'"):
      for part in text.split(','):
        state, share = part.rsplit(maxsplit=1)
        inputs.check_known(state.strip(), shares, f'unknown state {state!r}')
        shares[state.strip()] = float(share)
    belief = np.array([*shares.values()])
    if not ((belief >= 0).all() and abs(belief.sum() - 1) < TOLERANCE):
      raise core.InputError(
        f'{text!r} is no belief; expected probabilities that sum to 1'
      )
    return _words(rounded(belief)[None])

  # Sequences.

  def sample(self, num: int, seed: int, split: str = 'all') -> core.Sequences:
    """Sequences; side data 'hidden' are the states that each token led to."""
    play = functools.partial(self._drawn, seed)
    return sampling.stream(self, num, seed, split, play)

  def _drawn(self, seed: int, numbers: np.ndarray) -> core.Sequences:
    """The sequences with these numbers [N]."""
    _, states, matrices, start = self.process
    # [S, V S] per state: cumulative masses of (token, next state) pairs.
    pairs = matrices.swapaxes(0, 1).reshape(len(states), -1).cumsum(1)
    draws = basics.uniforms(seed, numbers)
    state = _picked(start.cumsum()[None], np.zeros(len(numbers)), draws)
    tokens, hidden = np.zeros((2, len(numbers), self.length), np.int32)
    for t in range(self.length):
      pair = _picked(pairs, state, basics.uniforms(seed, numbers, t))
      label, state = np.divmod(pair, len(states))
      tokens[:, t], hidden[:, t] = label + 1, state
    lengths = np.full(len(numbers), self.length, np.int32)
    return core.Sequences(tokens, lengths, {'hidden': hidden})

  def hidden_states(self, sequences: core.Sequences) -> np.ndarray:
    """[N, L, S] one-hot hidden state after each token; see core.Latent."""
    if 'hidden' not in sequences.side:
      raise core.InputError(
        f"{self.name}: sequences without side data 'hidden'; expected those of "
        'its sample, as stored ones have none'
      )
    return np.eye(len(self.process.states))[sequences.side['hidden']]


def _words(beliefs: np.ndarray) -> np.ndarray:
  """[B, 2 S] int32 bits of beliefs [B, S]; DEAD where they are NaN."""
  words = np.ascontiguousarray(beliefs).view(np.int32)
  return np.where(np.isnan(beliefs[:, :1]), core.DEAD, words)


def _beliefs(states: np.ndarray) -> np.ndarray:
  """[B, S] float64 of states [B, 2 S]; NaN where they are dead."""
  return np.ascontiguousarray(states, np.int32).view(np.float64)


def _picked(
  totals: np.ndarray, rows: np.ndarray, uniform: np.ndarray
) -> np.ndarray:
  """[N] columns drawn from rows [N] of cumulative masses [R, K]."""
  columns = np.zeros(len(rows), np.int64)
  for row, total in enumerate(totals):
    mine = rows == row
    place = uniform[mine] * total[-1]
    columns[mine] = np.searchsorted(total, place, side='right')
  return columns
