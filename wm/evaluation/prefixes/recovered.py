"""Does a model recover a language? All short sequences are asked about."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import accept as rules


class Recovery(NamedTuple):
  """Two definitions of Vafa et al. 2024, section 2.2, checked to a depth.

  Rows are the P legal sequences, from the prompt on, of fewer than `depth`
  tokens that can go on.

  Attributes:
    depth: longest sequence, in tokens.
    sequences: [P] str.
    exact: [P] bool, are the accepted next tokens the legal ones?
    recovered: [P] bool, are the continuations, up to `depth` tokens in all,
      that are accepted token by token those that are legal?
    first: the first sequence after which a next token differs, in words, and
      what is accepted and what is legal there; '' where there is none.
  """

  depth: int
  sequences: np.ndarray
  exact: np.ndarray
  recovered: np.ndarray
  first: str

  @property
  def agree(self) -> bool:
    """Are all next tokens exact if and only if the language is recovered?"""
    return bool(self.exact.all() == self.recovered.all())

  def lines(self) -> list[str]:
    """For people to read."""
    everywhere = ('no', 'yes')[int(self.exact.all())]
    language = ('no', 'yes')[int(self.recovered.all())]
    return [
      f'sequences of fewer than {self.depth} tokens {len(self.exact)}',
      f'exact next tokens after {self.exact.sum()}',
      f'language recovered after {self.recovered.sum()}',
      f'exact everywhere: {everywhere}; language recovered: {language}',
      *([self.first] if self.first else []),
    ]


class _Level(NamedTuple):
  """All N legal sequences of one length.

  Attributes:
    tokens: [N, k] int32.
    states: [N, W].
    starts: [N, D] number of each shorter sequence that it begins with.
    member: [N, D] bool, does the model accept the rest after this beginning?
  """

  tokens: np.ndarray
  states: np.ndarray
  starts: np.ndarray
  member: np.ndarray


def recovery(
  world: core.World,
  predictor: core.Predictor,
  depth: int,
  accept: rules.Accept,
  *,
  most: int,
) -> Recovery:
  """See `wm.recovery`."""
  start = max(world.prompt_len, 1)
  longest = min(world.max_len, predictor.max_len)
  if not start < depth <= longest:
    raise core.InputError(
      f'depth={depth}: expected {start + 1} to {longest} tokens in all'
    )
  level = _prompts(world, start, most)
  words: list[str] = []
  exact: list[np.ndarray] = []
  wrong: set[int] = set()  # Beginnings whose continuations differ.
  first = ''
  for _ in range(start, depth):
    legal, accepted = _next(world, predictor, accept, level)
    asked = np.flatnonzero(~_ended(world, level))
    right = (legal == accepted)[asked].all(-1)
    if not right.all() and not first:
      at = asked[np.argmin(right)]
      first = _difference(world, level.tokens[at], accepted[at], legal[at])
    number = np.full(len(level.tokens), core.DEAD)
    number[asked] = len(words) + np.arange(len(asked))
    words += [_words(world, row) for row in level.tokens[asked].tolist()]
    exact.append(right)
    level, differs = _longer(world, level, number, legal, accepted, most)
    wrong |= differs
  recovered = np.ones(len(words), bool)
  recovered[sorted(wrong)] = False
  return Recovery(
    depth, np.array(words), np.concatenate(exact), recovered, first
  )


def _prompts(world: core.World, start: int, most: int) -> _Level:
  """All legal sequences of `start` tokens."""
  states, tokens = world.init(1), np.zeros((1, 0), np.int32)
  for _ in range(start):
    rows, token = np.nonzero(world.legal(states))
    _check(len(rows), most)
    states = world.advance(states[rows], token)
    tokens = np.column_stack([tokens[rows], token]).astype(np.int32)
  none = np.zeros((len(tokens), 0))
  return _Level(tokens, states, none.astype(int), none.astype(bool))


def _check(number: int, most: int) -> None:
  if number > most:
    raise core.InputError(
      f'there are more than {most} sequences of one length; take a smaller '
      'depth or world'
    )


def _ended(world: core.World, level: _Level) -> np.ndarray:
  """[N] bool: sequences after which nothing is asked for."""
  if world.end != core.DEAD:
    return level.tokens[:, -1] == world.end
  return world.over(level.states)


def _next(
  world: core.World,
  predictor: core.Predictor,
  accept: rules.Accept,
  level: _Level,
) -> tuple[np.ndarray, np.ndarray]:
  """[N, V] bool each: legal next tokens, and accepted ones."""
  tokens = level.tokens
  accepted = np.zeros((len(tokens), len(world.vocab)), bool)
  lengths = np.full(len(tokens), tokens.shape[1], np.int32)
  for rows, found in core.log_probs_by_rows(predictor, tokens, lengths):
    accepted[rows] = accept.mask(np.asarray(found)[:, -1])
  accepted[_ended(world, level)] = False
  return world.legal(level.states), accepted


def _longer(
  world: core.World,
  level: _Level,
  number: np.ndarray,
  legal: np.ndarray,
  accepted: np.ndarray,
  most: int,
) -> tuple[_Level, set[int]]:
  """Sequences of one token more, and the beginnings whose languages differ.

  number: [N] of each sequence, DEAD of those that are over. An illegal token
  that is accepted after a beginning makes its language another one, whatever
  comes after.
  """
  starts = np.column_stack([level.starts, number])
  member = np.column_stack([level.member, np.ones(len(number), bool)])
  rows, token = np.nonzero(legal | (accepted & member.any(-1, keepdims=True)))
  _check(len(rows), most)
  starts = starts[rows]
  member = member[rows] & accepted[rows, token].reshape(-1, 1)
  good = legal[rows, token]
  differs = member != good.reshape(-1, 1)
  wrong = set(starts[differs].tolist())
  rows, token = rows[good], token[good]
  longer = _Level(
    np.column_stack([level.tokens[rows], token]).astype(np.int32),
    world.advance(level.states[rows], token),
    starts[good],
    member[good],
  )
  return longer, wrong


def _words(world: core.World, tokens: list[int]) -> str:
  return ' '.join(world.vocab[token] for token in tokens)


def _difference(
  world: core.World, tokens: np.ndarray, accepted: np.ndarray, legal: np.ndarray
) -> str:
  """What differs after a sequence, in words."""
  said = [
    ', '.join(world.vocab[k] for k in np.flatnonzero(some)) or 'nothing'
    for some in (accepted, legal)
  ]
  words = _words(world, tokens.tolist())
  return f'first after {words!r}: accepted {said[0]}; legal {said[1]}'
