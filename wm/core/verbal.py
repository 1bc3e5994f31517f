"""Worlds told in words, and the questions that are asked about them.

    rules or sample sequences      render_description(world, style)

    So far: Mira, Kulo, north.     the prefix, by `render_tokens`
    Can it go on with: east?       yes_or_no, all_next, one_next, or several
    Answer yes or no.              yes_or_no in a yes_or_no_list

Nothing here knows a language model; tests read all of it back from the text
alone.
"""

from __future__ import annotations

import abc
import functools
import re
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from wm.core.basics import InputError, hash64, optional
from wm.core.inputs import check_known
from wm.core.predictor import Tokens, histories
from wm.core.world import Sequences, World

RULES = 'rules'
MAX_TOKENS = 32_000  # Tokens of text before a question, by default.
NOTHING = 'nothing'  # In place of a prefix without tokens.
SAMPLED = 8  # Walks that the length of all of them is estimated from.
# Streams of randomness of one seed.
ORDER, NAMES = 1, 2
# Names are of these letters; none ends in 'e', as many English words do.
_CONSONANTS, _VOWELS, _LAST = 'bdfgklmnprstvz', 'aeiou', 'aiou'
_WALKS = re.compile(r'walks\((\d{1,6})\)')


class PromptStyle(NamedTuple):
  """How a world is told.

  Attributes:
    source: 'rules', or 'walks(n)': n sampled sequences in place of the rules.
    wording: one of the world's `wordings`; '' is its first.
    seed: of new names, and of the order in which things are said; 0 leaves
      both as they are. It draws the walks too.
  """

  source: str = RULES
  wording: str = ''
  seed: int = 0


class Extent(NamedTuple):
  """How long a text will be.

  Attributes:
    parts: things that are told one by one, such as intersections.
    name: what they are called, in the plural.
    tokens: of the whole text, about, as of `text_tokens`.
  """

  parts: int
  name: str
  tokens: int


SAMPLED = 16  # Prompts that the tokens of all are estimated from.
# Parts of a text: a word; a digit, before which a blank is a token too; signs.
_PARTS = re.compile(r'([A-Za-z]+)|( ?\d)|([^\sA-Za-z\d]+)')


def text_tokens(text: str) -> int:
  """How many tokens of a language model a text has, rather too many.

  Of the texts of all worlds here it gives .94 to 1.56 times what the tokenizer
  of SmolLM2 does, which splits numbers into digits; the median is 1.20.
  """
  return sum(
    -(-len(word) // 3) + len(digit) + -(-len(signs) // 2)
    for word, digit, signs in _PARTS.findall(text)
  )


def prompt_tokens(prompts: Sequence[str]) -> float:
  """Tokens of prompts, about, as of `text_tokens`.

  Those of some are scaled by the characters of all, as splitting thousands
  takes longer than a plan should.
  """
  few = prompts[:: len(prompts) // SAMPLED + 1]
  share = sum(map(text_tokens, few)) / max(sum(map(len, few)), 1)
  return share * sum(map(len, prompts))


class Verbal(World):
  """Can be told in words that, read literally, are the world."""

  wordings: ClassVar[tuple[str, ...]]

  @abc.abstractmethod
  def rules(self, style: PromptStyle) -> str:
    """The rules in plain sentences: what may follow what, and nothing else.

    They name every token by its `spoken` name, and say how a sequence is
    written: `words` of it.
    """

  def token_names(self, style: PromptStyle) -> tuple[str, ...]:
    """What tokens are called, [V] by id, all unlike; default: `vocab`."""
    del style
    return self.vocab

  def render_tokens(self, tokens: Tokens, style: PromptStyle) -> str:
    """A sequence, or a piece of one, as a list of names; '' of none."""
    spoken = self.token_names(style)
    return ', '.join(spoken[token] for token in tokens)

  def render_trajectory(self, tokens: Tokens, style: PromptStyle) -> str:
    """A sampled sequence, with the places on its way if they have names."""
    return self.render_tokens(tokens, style)

  @optional
  def questions(self, num: int, seed: int) -> Sequences:
    """Sequences after which exactly one of several tokens is legal.

    side: 'choices' [N, C] int32 tokens and 'answer' [N], the legal one.
    """
    raise NotImplementedError

  def extent(self, style: PromptStyle) -> Extent:
    """How long `rules` are; cheap where there is much to say."""
    text = self.rules(style)
    return Extent(1, 'pieces', text_tokens(text))


def wording_of(world: Verbal, style: PromptStyle) -> str:
  """The wording that is asked for; raises InputError where there is none."""
  name = style.wording or world.wordings[0]
  text = f'{world.name}: unknown wording {name!r}'
  check_known(name, world.wordings, text)
  return name


def number_of_walks(style: PromptStyle) -> int:
  """n of told='walks(n)', 0 where the rules are told.

  Raises:
    InputError: `told` is neither.
  """
  if style.source == RULES:
    return 0
  match = _WALKS.fullmatch(style.source.replace(' ', ''))
  if not match or not int(match[1]):
    raise InputError(
      f"told={style.source!r}; expected 'rules', or 'walks(n)' with n from 1 "
      'to 999999'
    )
  return int(match[1])


def render_description(
  world: Verbal,
  style: PromptStyle,
  most: int = MAX_TOKENS,
  before: Verbal | None = None,
) -> str:
  """A world's rules, or sequences that it samples, in words.

  before: a world that is told first, as what held before a change; it takes
    half of the tokens.

  Raises:
    InputError: unknown wording, other tokens before, or the text would have
      more than `most` tokens; the line says what fits. Nothing is written
      before that is known.
  """
  if before:
    if before.vocab != world.vocab:
      raise InputError(
        f'{before.name} is told before {world.name}; expected a world of the '
        f'same {len(world.vocab)} tokens'
      )
    return changed(
      render_description(before, style, most // 2),
      render_description(world, style, most // 2),
    )
  wording_of(world, style)
  num = number_of_walks(style)
  extent = description_extent(world, style)
  if extent.tokens > most:
    fits = int(extent.parts * most / extent.tokens)
    raise InputError(
      f'{world.name}: {extent.parts:,} {extent.name} in words are about '
      f'{extent.tokens:,} tokens; expected at most {most:,}, room for about '
      f'{fits:,} {extent.name}'
    )
  if not num:
    return world.rules(style)
  walks = _walks(world, style, num)
  lines = [f'{k}. {walk}' for k, walk in enumerate(walks, 1)]
  return '\n'.join(
    [
      'The rules are not told. They allow each of these sequences '
      f'({len(lines)} in all):',
      *lines,
    ]
  )


def description_extent(world: Verbal, style: PromptStyle) -> Extent:
  """How long `render_description` is, without writing it."""
  num = number_of_walks(style)
  if not num:
    return world.extent(style)
  few = _walks(world, style, min(num, SAMPLED))
  mean = sum(map(text_tokens, few)) / max(len(few), 1)
  return Extent(num, 'sequences', int(num * (mean + 3)) + 1)


def _walks(world: Verbal, style: PromptStyle, num: int) -> list[str]:
  walks = world.sample(num, style.seed, 'train')
  rows = histories(walks.tokens, walks.lengths)
  return [world.render_trajectory(row, style) for row in rows]


# Questions.
_ASKED, _FORM = 'Can it go on with: ', '?\nAnswer yes or no.'


def changed(before: str, after: str) -> str:
  """A world told first, and what holds in its place now."""
  return (
    f'{before}\n\nThis has changed. Now the following holds instead.\n\n{after}'
  )


def so_far(description: str, prefix: str) -> str:
  """What every question begins with; prefix: in words, '' for none."""
  return f'{description}\n\nSo far: {prefix or NOTHING}.\n'


def yes_or_no(description: str, prefix: str, suffix: str) -> str:
  """Prompt: can what was so far go on with all of the suffix?"""
  return f'{so_far(description, prefix)}{_ASKED}{suffix}{_FORM}'


def yes_or_no_list(prompts: Sequence[str]) -> str:
  """Prompt: several questions of `yes_or_no`, all after one prefix."""
  suffixes = [prompt.rpartition(_ASKED)[2] for prompt in prompts]
  lines = [
    f'{number}. {suffix.removesuffix(_FORM)}'
    for number, suffix in enumerate(suffixes, 1)
  ]
  return '\n'.join(
    [
      f'{prompts[0].rpartition(_ASKED)[0]}Can it go on with each of these? '
      'Each is a question of its own.',
      *lines,
      f'Answer by a list of the numbers 1 to {len(lines)}, each with yes or '
      'no.',
    ]
  )


def all_next(description: str, prefix: str) -> str:
  """Prompt: every single token that can come next."""
  return (
    f'{so_far(description, prefix)}What can come next? List every possible '
    'next element, separated by semicolons, after "Answer:". If there is none, '
    f'write {NOTHING}.'
  )


def one_next(description: str, prefix: str, choices: Sequence[str]) -> str:
  """Prompt: which one of some tokens can come next?"""
  return (
    f'{so_far(description, prefix)}Exactly one of these can come next: '
    f'{"; ".join(choices)}.\nWhich one? Write it after "Answer:".'
  )


# Names and order.


def shuffled(num: int, style: PromptStyle, stream: int = ORDER) -> np.ndarray:
  """[num] int64, the order in which things are said; by number for seed 0."""
  if not style.seed:
    return np.arange(num)
  return np.argsort(hash64(style.seed, stream, np.arange(num)), kind='stable')


def new_names(num: int, style: PromptStyle) -> tuple[str, ...]:
  """`num` names such as 'Mira', all unlike; they depend on the seed."""
  return _new_names(num, style.seed)


@functools.lru_cache(maxsize=64)
def _new_names(num: int, seed: int) -> tuple[str, ...]:
  first = [c + v for c in _CONSONANTS for v in _VOWELS]
  last = [c + v for c in _CONSONANTS for v in _LAST]
  size, middles = len(first) * len(last), 0
  while size < num:
    size, middles = size * len(first), middles + 1
  names = []
  order = np.argsort(hash64(seed, NAMES, np.arange(size)), kind='stable')
  for number in order[:num].tolist():
    number, end = divmod(number, len(last))
    name = last[end]
    for _ in range(middles + 1):
      number, part = divmod(number, len(first))
      name = first[part] + name
    names.append(name.capitalize())
  return tuple(names)
