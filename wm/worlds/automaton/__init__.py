"""A regular language, or the paths of any finite automaton.

The automaton is a file (`readers`) or a preset (`machine`):

    automaton(file='lift.json')             JSON, CSV or DOT
    automaton(preset='tomita3')             by default dyck_2_3

    even --a--> odd --a--> even     'end' is legal exactly where a state accepts

With accepting states, a sequence is a word of the language and `end`. A symbol
is legal if some word of the language continues with it. Without accepting
states, a sequence stops after `length` tokens or where nothing is legal.

`WordProcess` is their distribution, a token at a time. A length w is drawn,
then a word of that length uniformly. Let L_r(s) be the number of words of r
letters that are accepted from state s. A word in state s after k letters has
the mass

  T_k(s) = sum over w >= k of p(w) L_{w-k}(s) / L_w(start)

of which p(k) L_0(s) / L_k(start) ends, and T_{k+1}(v) continues in state v.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import ClassVar

import numpy as np

from wm import core
from wm.core import basics, resources
from wm.core.fields import field, field_error
from wm.kernels import dfa
from wm.worlds.automaton import machine, readers
from wm.worlds.base import sampling, table, verbal

DEFAULT = 'dyck_2_3'
WORD, SYMBOL = 3, 4  # Mixed into seeds, apart from those of random play.
TEXTS = verbal.Texts(__file__)
_STEP = 'In state {here}, reading {label} leads to state {there}.'
# Symbols that need no quotes in a list; others are numbered.
_PLAIN, _QUOTABLE = re.compile(r'\w+'), re.compile(r'[^,;."\s]+')


@dataclasses.dataclass(frozen=True)
class World(table.NamedTableWorld, core.Verbal, core.Described):
  """A user's finite automaton, or a well-known one.

  Rows of the table are the reachable states from which a word can still be
  completed, breadth first; states with the same continuations are one.
  `stats` counts the others.

  A length is uniform, then a word among those of this length. Without accepting
  states, each token is uniform over the legal ones.

  Attributes:
    preset: name instead of a file: tomita1 to tomita7, dyck_KINDS_DEPTH, a
      group such as z5 or s3_generators (its word problem), or a random
      automaton, random_STATES_SYMBOLS_LEGAL_SEED. STATES and SYMBOLS are at
      least 3; LEGAL is at least 2, at least a third of SYMBOLS, and less than
      SYMBOLS.
  """

  noun: ClassVar[str] = 'this automaton'

  file: str = field(
    '', 'automaton as .json, .csv, .dot or .gv', format=readers.__name__
  )
  preset: str = ''
  length: int = field(
    32, 'most tokens of a sequence, `end` included', least=2, unit='tokens'
  )

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.file and self.preset:
      raise field_error(self, 'file preset', 'one of these alone')

  @functools.cached_property
  def given(self) -> machine.FiniteAutomaton:
    """The automaton before reduction; raises InputError if it is invalid."""
    if self.file:
      return readers.read(self.file)
    return machine.preset(self.preset or DEFAULT)

  @functools.cached_property
  def _reduced(self) -> machine.Reduced:
    where = self.file or self.preset or DEFAULT
    reduced = machine.reduced(where, self.given)
    # Counts of words and prefixes.
    size = 16 * self.length * len(reduced.delta)
    resources.require_memory(size, f'{where} with length={self.length}')
    heads = reduced.delta[0, int(self._ends) :]
    heads = heads[heads >= 0]
    if not heads.size:
      raise core.InputError(f'{where} has no word but the empty one')
    shortest = 1 + reduced.need[heads].min()
    if shortest > self.length:
      raise core.InputError(
        f'{where}: length={self.length}; its shortest word that is not empty '
        f'takes {shortest} tokens, end included'
      )
    return reduced

  @property
  def _ends(self) -> bool:
    return self.given.accepting is not None

  @property
  def delta(self) -> np.ndarray:
    """[S, A] int32, see the table in `machine`."""
    return self._reduced.delta

  @property
  def names(self) -> tuple[str, ...]:
    """Names of all rows; 'over' is the last."""
    return self._reduced.names

  @property
  def rows(self) -> dict[str, int]:
    """Row by name; each member of a merged state has its name here too."""
    return self._reduced.rows

  @functools.cached_property
  def vocab(self) -> tuple[str, ...]:
    """'<pad>', 'end' where states accept, then the symbols."""
    ends = (machine.END,) if self._ends else ()
    return (machine.PADDING, *ends, *self.given.symbols)

  @property
  def end(self) -> int:
    """Id of 'end'; DEAD without accepting states."""
    return 1 if self._ends else core.DEAD

  # Words.

  @functools.cached_property
  def _words(self) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of words by length: [length, S], scaled for each length.

    Entry [r, s] is proportional to the number of words of r symbols that are
    accepted from row s. Also returns [length] natural logs of the unscaled
    numbers for the start.
    """
    symbols, final = self.delta[:, 1:], self.delta[:, 0] >= 0
    words = np.zeros((self.length, len(symbols)))
    logs, scale = np.full(self.length, -np.inf), 0.0
    words[0] = final
    for r in range(self.length):
      if r:
        ways = np.where(symbols >= 0, words[r - 1][symbols], 0.0).sum(1)
        most = max(ways.max(), 1e-300)
        words[r], scale = ways / most, scale + np.log(most)
      if words[r, 0]:
        logs[r] = np.log(words[r, 0]) + scale
    return words, logs

  def sample(self, num: int, seed: int, split: str = 'all') -> core.Sequences:
    """Words and `end`; without accepting states, random play.

    Words are counted in float64, so their shares are exact to rounding.
    """
    if not self._ends:
      return super().sample(num, seed, split)
    play = functools.partial(self._drawn, seed)
    return sampling.stream(self, num, seed, split, play)

  def data_distribution(self, replan: bool = False) -> core.SequenceProcess:
    """See core.Generative; words where there are any, see WordProcess."""
    play = super().data_distribution(replan)
    if not self._ends:
      return play
    _, logs = self._words
    mass = np.isfinite(logs) * 1.0
    with np.errstate(divide='ignore'):
      log_lengths = np.log(mass / mass.sum())
    return WordProcess(self.delta, log_lengths, replan)

  def _drawn(self, seed: int, numbers: np.ndarray) -> np.ndarray:
    """Tokens [N, length] of the words with these numbers [N]."""
    words, logs = self._words
    mass = np.isfinite(logs) * 1.0
    uniform = basics.uniforms(seed, numbers, WORD)
    left = _picked(np.broadcast_to(mass, (len(numbers), len(mass))), uniform)
    tokens = np.zeros((len(numbers), self.length), np.int32)
    tokens[np.arange(len(numbers)), left] = self.end
    rows = np.zeros(len(numbers), np.int32)
    for k in range(int(left.max(initial=0))):
      going = np.flatnonzero(left > k)
      heads = self.delta[rows[going], 1:]
      mass = words[left[going, None] - k - 1, heads] * (heads >= 0)
      label = _picked(mass, basics.uniforms(seed, numbers[going], SYMBOL, k))
      tokens[going, k] = label + 2
      rows[going] = heads[np.arange(len(going)), label]
    return tokens

  @functools.cached_property
  def _arrivals(self) -> np.ndarray:
    """[max_len, S] bool: True if some sequence is in the row after k tokens."""
    reached = self._ways > 0
    if self._ends:
      moves = np.arange(self.length)[:, None]
      reached &= moves + self._reduced.need <= self.length
      reached[:, -1] = False  # No token follows `end`.
    return reached

  def distance_to_end(
    self, states: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    """See core.Finite; without accepting states a sequence stops anywhere.

    [B, A]: one entry for each label.
    """
    heads = self.delta[states[:, 0]]
    heads[states[:, 0] < 0] = core.DEAD
    tokens = np.arange(1, len(self.vocab), dtype=np.int32)
    return np.where(heads >= 0, tokens, core.DEAD), self._reduced.need[
      heads
    ] + 1

  def stats(self) -> dict[str, int]:
    """Numbers of states before and after reduction, and of dropped states.

    'unreachable': no word leads there. 'dead_ends': reachable, but no word can
    be completed; without accepting states, these have no legal token and are
    kept. 'merged': another state has the same continuations.
    """
    return self._reduced.facts

  def read_as(self) -> dict[str, str]:
    """Interpretation of the file; empty for presets and expressions."""
    return dict(self.given.read_as)

  # In words.

  def token_names(self, style: core.PromptStyle) -> tuple[str, ...]:
    """Symbols; in lists quoted, or numbered if they would be ambiguous."""
    symbols = self.given.symbols
    if not all(map(_PLAIN.fullmatch, symbols)):
      if all(map(_QUOTABLE.fullmatch, symbols)):
        symbols = tuple(f'"{symbol}"' for symbol in symbols)
      else:
        symbols = tuple(f'symbol{k}' for k in range(1, len(symbols) + 1))
    return (*self.vocab[: len(self.vocab) - len(symbols)], *symbols)

  def _table(
    self, style: core.PromptStyle
  ) -> tuple[verbal.VerbalTable, np.ndarray]:
    """States without the one after the end, and the rows of accepting ones."""
    symbols = len(self.given.symbols)
    ends = len(self.vocab) - 1 - symbols
    delta = self.delta[: len(self.delta) - ends, ends:]
    num = len(delta)
    names = tuple(f'S{row}' for row in range(num))
    if style.seed:
      names = core.verbal.new_names(num, style)
    final = np.flatnonzero(self.delta[:num, :ends].ravel() >= 0)
    spoken = self.token_names(style)[-symbols:]
    return verbal.VerbalTable(delta, names, spoken, _STEP), final

  def rules(self, style: core.PromptStyle) -> str:
    """See core.Verbal: all states by name, and all steps."""
    verbal_table, final = self._table(style)
    rows = core.verbal.shuffled(len(verbal_table.names), style)
    end = ''
    if self.end != core.DEAD:
      names = [verbal_table.names[row] for row in final]
      end = TEXTS.render(
        'machine_end',
        end=self.token_names(style)[self.end],
        names=', '.join(verbal.in_order(names, style)),
      )
    return TEXTS.render(
      'machine',
      num=len(rows),
      names=verbal_table.listed(rows),
      first=verbal_table.names[0],
      body='\n'.join(verbal_table.by_step(rows, style)),
      end=end,
    )

  def extent(self, style: core.PromptStyle) -> core.verbal.Extent:
    """See core.Verbal."""
    verbal_table, final = self._table(style)
    frame = TEXTS.frame('machine') + TEXTS.frame('machine_end')
    frame += verbal_table.listed(final)
    return verbal_table.extent(style, 'states', frame)


def _picked(mass: np.ndarray, uniform: np.ndarray) -> np.ndarray:
  """[N] columns drawn in proportion to mass [N, K]; no row is all zero."""
  total = np.cumsum(mass, axis=1)
  return (total <= uniform[:, None] * total[:, -1:]).sum(1)


END_TOKEN = 1  # Tokens of letters follow.


class WordProcess(core.SequenceProcess):
  """Words and `end`; the memory is the state and the letters so far."""

  def __init__(
    self, delta: np.ndarray, log_lengths: np.ndarray, replan: bool
  ) -> None:
    """Takes the automaton and the distribution of lengths.

    delta: [S, A] int32 next states by label, `end` first; DEAD if illegal.
    log_lengths: [W] float64 log-probability of each number of letters.
    replan: mix with a vanishing share of random legal letters, which remain
      where no word can be completed.
    """
    self._delta, self._replan = delta, replan
    with np.errstate(divide='ignore'):
      counts = np.log((delta[:, 0] >= 0).astype(float))[None]  # L_0
    for _ in range(1, len(log_lengths)):
      heads = np.where(delta[:, 1:] >= 0, counts[-1][delta[:, 1:]], -np.inf)
      counts = np.vstack([counts, np.logaddexp.reduce(heads, axis=1)])
    possible = np.isfinite(counts[:, 0])
    start = np.where(possible, counts[:, 0], 0)
    share = np.where(possible, log_lengths - start, -np.inf)  # Of each word.
    self._ending = share[:, None] + counts[0]
    goes_on = np.full((len(share) + 1, len(delta)), -np.inf)
    for k in range(len(share)):
      terms = share[k:, None] + counts[: len(share) - k]
      goes_on[k] = np.logaddexp.reduce(terms, axis=0)
    self._goes_on = goes_on

  def init(self, batch: int) -> np.ndarray:
    """See core.SequenceProcess."""
    return np.zeros((batch, 2), np.int32)

  def advance(self, memory: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """See core.SequenceProcess."""
    labels = np.asarray(tokens) - END_TOKEN
    rows = dfa.advance(self._delta, memory[:, 0], labels)
    return np.stack([rows, memory[:, 1] + 1], axis=1).astype(np.int32)

  def next(self, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """See core.SequenceProcess; [B, A] one entry for each label."""
    rows, letters = memory.T
    heads = self._delta[rows]
    heads[rows < 0] = core.DEAD
    last = len(self._ending) - 1
    now, after = np.minimum(letters, last), np.minimum(letters + 1, last + 1)
    mass = np.where(heads >= 0, self._goes_on[after[:, None], heads], -np.inf)
    mass[:, 0] = np.where(heads[:, 0] >= 0, self._ending[now, rows], -np.inf)
    mass[letters > last] = -np.inf
    if self._replan:
      lost = ~np.isfinite(mass).any(1)
      mass[lost] = np.where(heads[lost] >= 0, 0.0, -np.inf)
    total = np.logaddexp.reduce(mass, axis=1, keepdims=True)
    possible = np.isfinite(mass)
    log_probs = np.where(possible, mass - np.where(possible, total, 0), -np.inf)
    tokens = np.arange(END_TOKEN, END_TOKEN + mass.shape[1], dtype=np.int32)
    return np.where(possible, tokens, core.DEAD), log_probs
