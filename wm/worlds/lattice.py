"""A walk on a line of states with walls at both ends.

    0 -- 1 -- 2 -- 3 -- 4        left, stay, right; no step into a wall

The walk starts at 0, which is not a token; each move is uniform over the legal
ones (the lattice of the inductive-bias probes, Vafa et al. 2025). If it is
`clipped`, every move is legal, and a move into a wall leaves the walk in place.
If it is `named`, a last token names the state in which the walk has ended.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from wm import core
from wm.core import resources
from wm.core.capabilities import Box
from wm.core.fields import field
from wm.worlds.base import sampling, svg, table, verbal

AROUND = 8  # States drawn on each side of the current one.
LEFT, LINE, GAP = 40, 32, 44  # Pixels: the first state, and between two.

VOCAB = ('<pad>', 'left', 'stay', 'right')
TEXTS = verbal.Texts(__file__)


@dataclasses.dataclass(frozen=True)
class World(table.TableWorld, core.Labelled, core.Verbal):
  """A line of states.

  Attributes:
    clipped: a move into a wall is legal and leaves the walk in place; all
      states then have the same legal tokens.
    named: a last token, 'at0', 'at1', ..., names the state in which the walk
      ends. It is legal in that state at any time, and no token is legal after
      it: row `size` of the table. All states then have different legal tokens.
  """

  noun: ClassVar[str] = 'this line'
  wordings: ClassVar[tuple[str, ...]] = ('line', 'places')

  size: int = field(5, 'number of states, S', least=2)
  length: int = field(100, 'moves in a sequence', least=2)
  clipped: bool = False
  named: bool = False

  def cost(self, world: core.World | None = None) -> core.Cost:
    """See core.Bounded; includes the table."""
    del world
    named = self.size * self.named
    table = (4 * (3 + named) + 16) * self.size
    return resources.sequences_cost(
      self.length, 'size', 'length', vocab=named, more=table
    )

  @property
  def vocab(self) -> tuple[str, ...]:
    """'<pad>', 'left', 'stay', 'right', and names of states if `named`."""
    if not self.named:
      return VOCAB
    return (*VOCAB, *(f'at{row}' for row in range(self.size)))

  @property
  def max_len(self) -> int:
    """The length of every sequence, the name of a state included."""
    return self.length + self.named

  @functools.cached_property
  def delta(self) -> np.ndarray:
    """[S, 3] int32; [S + 1, 3 + S] if states are named."""
    columns = 3 + self.size * self.named
    row = np.arange(self.size, dtype=np.int32)
    delta = np.stack([row - 1, row, row + 1], axis=-1)
    if self.clipped:
      delta = delta.clip(0, self.size - 1)
    else:
      delta[delta == self.size] = core.DEAD
    if not self.named:
      return delta
    table = np.full((self.size + 1, columns), core.DEAD, np.int32)
    table[:-1, :3] = delta
    table[row, 3 + row] = self.size
    return table

  def sample(self, num: int, seed: int, split: str = 'all') -> core.Sequences:
    """Random moves, followed by the name of the state if `named`."""
    if not self.named:
      return super().sample(num, seed, split)
    moves = dataclasses.replace(self, named=False)

    def play(numbers: np.ndarray) -> np.ndarray:
      tokens = sampling.played(moves, seed, numbers)
      lengths = np.full(len(tokens), self.length)
      last = moves.walk(moves.init(len(tokens)), tokens, lengths)[1]
      return np.concatenate([tokens, len(VOCAB) + last], axis=1)

    return sampling.stream(self, num, seed, split, play)

  def sample_states(self, num: int, seed: int) -> np.ndarray:
    """States uniform over those of the line that some prefix reaches."""
    if not self.named:
      return super().sample_states(num, seed)
    return self._moving.sample_states(num, seed)

  def num_states(self) -> int:
    """See core.Prefixed."""
    return self._moving.num_states() if self.named else super().num_states()

  @property
  def _moving(self) -> World:
    """The same line without names of states."""
    return dataclasses.replace(self, named=False, length=self.length + 1)

  def sequence_process(self, replan: bool) -> core.SequenceProcess:
    """See sampling.UniformPlay."""
    del replan  # A random walk continues in the same way from any prefix.
    return LatticeWalk(self)

  # In words.

  def _names(self, style: core.PromptStyle) -> tuple[str, ...]:
    """Names of the states; numbers in the wording as a line."""
    if core.verbal.wording_of(self, style) == 'line' or not style.seed:
      return tuple(map(str, range(self.size)))
    return core.verbal.new_names(self.size, style)

  def token_names(self, style: core.PromptStyle) -> tuple[str, ...]:
    """Names of moves as in `vocab`; 'at' and the name of a state."""
    names = self._names(style) if self.named else ()
    return (*VOCAB, *(f'at {name}' for name in names))

  def rules(self, style: core.PromptStyle) -> str:
    """See core.Verbal: as a line, or place by place."""
    if core.verbal.wording_of(self, style) == 'line':
      last = self.size - 1
      block = 'line_clipped' if self.clipped else 'line_walls'
      body = TEXTS.lines(block, style, last=last)
      text = TEXTS.render(
        'line', size=self.size, last=last, body='\n'.join(body)
      )
    else:
      names = self._names(style)
      rows = core.verbal.shuffled(self.size, style)
      text = TEXTS.render(
        'places',
        size=self.size,
        names=', '.join(names[row] for row in rows),
        first=names[0],
        body='\n'.join(self._tell(rows, style)),
      )
    if not self.named:
      return text
    example = self.token_names(style)[len(VOCAB)]
    return f'{text} {TEXTS.render("named", example=example)}'

  def _tell(self, rows: np.ndarray, style: core.PromptStyle) -> list[str]:
    steps = self.delta[: self.size, : len(VOCAB) - 1]
    verbal_table = verbal.VerbalTable(steps, self._names(style), VOCAB[1:])
    form = 'At {here}, {label} can come next and leads to {there}.'
    return verbal.by_step(verbal_table, rows, style, step=form, none='')

  def extent(self, style: core.PromptStyle) -> core.verbal.Extent:
    """See core.Verbal; the wording as a line has a length independent of S."""
    if core.verbal.wording_of(self, style) == 'line':
      return super().extent(style)
    verbal_table = verbal.VerbalTable(self.delta, self._names(style), ())
    frame = TEXTS.frame('places') + f' {TEXTS.frame("named")}' * self.named
    return verbal.extent(
      verbal_table, lambda rows: self._tell(rows, style), 'places', frame
    )

  def functions(self, states: np.ndarray) -> dict[str, np.ndarray]:
    """'parity' of the state's number."""
    return {'parity': states[:, 0].astype(np.int64) % 2}

  def render(self, state: np.ndarray) -> str:
    """The line around the current state, with walls that are near."""
    row = int(state[0])
    if row < 0 or row == self.size:
      return svg.card(['over' if row > 0 else 'dead'])
    first, last = max(row - AROUND, 0), min(row + AROUND, self.size - 1)
    left, gap, y = LEFT, GAP, LINE
    right = left + gap * (last - first)
    parts = [svg.line(left - 30, y, right + 30, y, svg.FAINT, 2)]
    for end, x in ((0, left - 30), (self.size - 1, right + 30)):
      if first <= end <= last:
        parts.append(svg.rect(x - 4, y - 18, 8, 36, svg.INK))
    for place in range(first, last + 1):
      x, current = left + gap * (place - first), place == row
      fill, ink = (svg.HERE, svg.PAPER) if current else (svg.PAPER, svg.INK)
      parts.append(svg.circle(x, y, 15, fill, f'stroke="{svg.FAINT}"'))
      bold = svg.BOLD if current else ''
      parts.append(svg.label(x, y + 4, str(place), fill=ink, more=bold))
    legal = np.flatnonzero(self.delta[row] >= 0)
    note = 'legal: ' + ', '.join(self.vocab[label + 1] for label in legal)
    parts.append(svg.text(left - 30, y + 38, note, size=12))
    return svg.picture(max(right + 40, 160), y + 48, parts, f'at {row}')

  def token_boxes(
    self, state: np.ndarray, tokens: Iterable[int]
  ) -> dict[int, list[Box]]:
    """See core.Written: the states that moves lead to, or that names denote."""
    row, points = int(state[0]), {}
    if not 0 <= row < self.size:
      return {}
    first, last = max(row - AROUND, 0), min(row + AROUND, self.size - 1)
    for token in filter(None, tokens):
      place = token - len(VOCAB) if token >= len(VOCAB) else row + token - 2
      if first - 1 <= place <= last + 1:  # Or the wall.
        points[token] = LEFT + GAP * (place - first), LINE
    return svg.around(points)


class LatticeWalk(core.SequenceProcess):
  """A Markov chain; memory is a row of the table and the tokens so far."""

  def __init__(self, world: World) -> None:
    """world: world of the sequences."""
    self.world = world

  def init(self, batch: int) -> np.ndarray:
    """See core.SequenceProcess."""
    return np.zeros((batch, 2), np.int32)

  def advance(self, memory: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """See core.SequenceProcess."""
    rows = self.world.advance(memory[:, :1], tokens)
    return np.concatenate([rows, memory[:, 1:] + 1], axis=1)

  def next(self, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Uniform over legal moves; after the last move the state's name.

    Without names the walk continues: samples are cut at `length`.
    """
    step = memory[:, 1:]
    may = self.world.legal(memory[:, :1])[:, 1:]
    move = np.arange(may.shape[1]) < len(VOCAB) - 1
    goes_on = (step < self.world.length) | (not self.world.named)
    may &= np.where(move, goes_on, step == self.world.length)
    tokens = np.where(may, np.arange(1, may.shape[1] + 1), core.DEAD)
    share = -np.log(np.maximum(may.sum(1, keepdims=True), 1))
    return tokens.astype(np.int32), np.where(may, share, -np.inf)
