"""Verbal descriptions of worlds, and prompts that ask about them.

    rules                          render_description(world, style)

    So far: Mira, Kulo, north.     the prefix, by `render_tokens`
    Can it go on with: east?       yes_or_no, all_next or one_next
    Answer yes or no.

This module depends on no language model; tests parse the world back from the
text alone.
"""

from __future__ import annotations

import abc
import functools
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wm.core.basics import InputError, hash64, optional
from wm.core.predictor import Tokens
from wm.core.world import Sequences, World

MAX_TOKENS = 32_000  # Tokens of text before a question, by default.
NOTHING = 'nothing'  # Stands for an empty prefix.
# Streams of randomness of one seed.
ORDER, NAMES = 1, 2
# New names use these letters; none ends in 'e', as many English words do.
_CONSONANTS, _VOWELS, _LAST = 'bdfgklmnprstvz', 'aeiou', 'aiou'


class PromptStyle(NamedTuple):
  """How a prompt describes a world.

  Attributes:
    seed: seed of new names and of the order of statements; 0 keeps the world's
      names and order.
  """

  seed: int = 0


class Extent(NamedTuple):
  """Estimated length of a description.

  Attributes:
    parts: number of things that are described one by one, e.g. intersections.
    name: plural noun for the parts.
    tokens: estimated tokens of the whole text; see `text_tokens`.
  """

  parts: int
  name: str
  tokens: int


SAMPLED = 16  # Prompts from which the tokens of all are estimated.
# Parts of a text: a word; a digit with the blank before it; other signs.
_PARTS = re.compile(r'([A-Za-z]+)|( ?\d)|([^\sA-Za-z\d]+)')


def text_tokens(text: str) -> int:
  """Estimates a text's tokens for a language model, rather too high.

  For the texts of wm's worlds the estimate is .94 to 1.56 times the count of
  SmolLM2's tokenizer, which splits numbers into digits; the median is 1.20.
  """
  return sum(
    -(-len(word) // 3) + len(digit) + -(-len(signs) // 2)
    for word, digit, signs in _PARTS.findall(text)
  )


def prompt_tokens(prompts: Sequence[str]) -> float:
  """Estimates the total tokens of prompts; see `text_tokens`.

  The tokens of a few prompts are scaled by the characters of all: splitting
  thousands of prompts would take too long for a plan.
  """
  few = prompts[:: len(prompts) // SAMPLED + 1]
  share = sum(map(text_tokens, few)) / max(sum(map(len, few)), 1)
  return share * sum(map(len, prompts))


class Verbal(World):
  """Can be described in words that, read literally, define the world."""

  @abc.abstractmethod
  def rules(self, style: PromptStyle) -> str:
    """The rules in plain sentences: which tokens may follow, and no advice.

    The text uses the names of `token_names`, and says how `render_tokens`
    writes a sequence.
    """

  def token_names(self, style: PromptStyle) -> tuple[str, ...]:
    """Names of tokens in prompts, [V], all different; default: `vocab`."""
    del style
    return self.vocab

  def render_tokens(self, tokens: Tokens, style: PromptStyle) -> str:
    """A sequence or a piece of one as a list of names; '' if it is empty."""
    spoken = self.token_names(style)
    return ', '.join(spoken[token] for token in tokens)

  @optional
  def questions(self, num: int, seed: int) -> Sequences:
    """Samples prefixes after which exactly one of C tokens is legal.

    Returns:
      `num` prefixes with side data 'choices', [N, C] int32 tokens, and
      'answer', [N] the legal one.
    """
    raise NotImplementedError

  def extent(self, style: PromptStyle) -> Extent:
    """Estimated length of `rules`; worlds with long rules override it."""
    text = self.rules(style)
    return Extent(1, 'pieces', text_tokens(text))


def render_description(
  world: Verbal,
  style: PromptStyle,
  most: int = MAX_TOKENS,
  before: Verbal | None = None,
) -> str:
  """Renders a world's rules in words.

  Args:
    world: world to describe.
    style: how to describe it.
    most: maximum number of tokens of the text.
    before: world before a change, described first with half of the tokens.

  Raises:
    InputError: `before` has other tokens, or the text would have more than
      `most` tokens. The latter is checked before rendering; the message says
      how much fits.
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
  extent = world.extent(style)
  if extent.tokens > most:
    fits = int(extent.parts * most / extent.tokens)
    raise InputError(
      f'{world.name}: {extent.parts:,} {extent.name} in words are about '
      f'{extent.tokens:,} tokens; expected at most {most:,}, room for about '
      f'{fits:,} {extent.name}'
    )
  return world.rules(style)


# Questions.


def changed(before: str, after: str) -> str:
  """Joins the descriptions of a world before and after a change."""
  return (
    f'{before}\n\nThis has changed. Now the following holds instead.\n\n{after}'
  )


def so_far(description: str, prefix: str) -> str:
  """The beginning of every prompt; prefix: in words, '' if it is empty."""
  return f'{description}\n\nSo far: {prefix or NOTHING}.\n'


def yes_or_no(description: str, prefix: str, suffix: str) -> str:
  """Prompt: can the whole suffix follow the prefix?"""
  return (
    f'{so_far(description, prefix)}Can it go on with: {suffix}?\nAnswer yes or '
    'no.'
  )


def all_next(description: str, prefix: str) -> str:
  """Prompt: every single token that can come next."""
  return (
    f'{so_far(description, prefix)}What can come next? List every possible '
    'next element, separated by semicolons, after "Answer:". If there is none, '
    f'write {NOTHING}.'
  )


def one_next(description: str, prefix: str, choices: Sequence[str]) -> str:
  """Prompt: which of several tokens can come next?"""
  return (
    f'{so_far(description, prefix)}Exactly one of these can come next: '
    f'{"; ".join(choices)}.\nWhich one? Write it after "Answer:".'
  )


# Names and order.


def shuffled(num: int, style: PromptStyle, stream: int = ORDER) -> np.ndarray:
  """[num] int64, a random order of statements; 0..num - 1 for seed 0."""
  if not style.seed:
    return np.arange(num)
  return np.argsort(hash64(style.seed, stream, np.arange(num)), kind='stable')


@functools.lru_cache(maxsize=64)
def new_names(num: int, style: PromptStyle) -> tuple[str, ...]:
  """`num` different names such as 'Mira', determined by the seed."""
  first = [c + v for c in _CONSONANTS for v in _VOWELS]
  last = [c + v for c in _CONSONANTS for v in _LAST]
  size, middles = len(first) * len(last), 0
  while size < num:
    size, middles = size * len(first), middles + 1
  names = []
  order = np.argsort(hash64(style.seed, NAMES, np.arange(size)), kind='stable')
  for number in order[:num].tolist():
    number, end = divmod(number, len(last))
    name = last[end]
    for _ in range(middles + 1):
      number, part = divmod(number, len(first))
      name = first[part] + name
    names.append(name.capitalize())
  return tuple(names)
