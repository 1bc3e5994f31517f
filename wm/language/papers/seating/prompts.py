"""Prompts of the seating puzzle, as the paper puts it to language models.

Names of people and statements come in; the text of a question goes out. The
structure is that of Vafa et al. 2024, section 4.2 and appendix; the words are
our own, or those of files that the user brings:

  seat.txt          {people}, {statements}, {person}
  continuation.txt  {people}, {statements}, {more}
  at.txt            one statement: {person}, {seat}
  apart.txt         one statement: {person}, {other}, {distance}

`score` asks these questions and reads the replies.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from wm.language.papers import published
from wm.runtime import pages

KEYWORD = 'ANSWER'
TEXTS = pages.macros('wm.language.papers.seating', 'prompt.md.j2')
KINDS = 'seat', 'continuation', 'at', 'apart'


def statement(token: str, folder: str = '') -> str:
  """One sentence from 'A@1' (A is in seat 1) or 'A-B=2' (2 seats apart)."""
  kind = 'at' if '@' in token else 'apart'
  names = (
    ('person', 'seat') if '@' in token else ('person', 'other', 'distance')
  )
  values = dict(zip(names, re.split('[@=-]', token), strict=True))
  return published.render(folder, kind, KINDS, values, TEXTS).strip()


def numbered(tokens: Sequence[str], first: int = 1, folder: str = '') -> str:
  """Statements as lines, numbered from `first`."""
  return '\n'.join(
    f'{first + n}. {statement(token, folder)}' for n, token in enumerate(tokens)
  )


def _question(
  kind: str,
  people: Sequence[str],
  tokens: Sequence[str],
  folder: str,
  **last: str,
) -> str:
  values = {
    'people': ', '.join(people[:-1]) + f' and {people[-1]}',
    'statements': numbered(tokens, folder=folder),
    **last,
  }
  num = str(len(people))
  return published.render(folder, kind, KINDS, values, TEXTS, num=num)


def seat_question(
  people: Sequence[str], tokens: Sequence[str], person: str, folder: str = ''
) -> str:
  """Prompt: where is a person seated, given these statements?"""
  return _question('seat', people, tokens, folder, person=person)


def continuation_question(
  people: Sequence[str],
  tokens: Sequence[str],
  suffix: Sequence[str],
  folder: str = '',
) -> str:
  """Prompt: are the statements of `suffix` a valid continuation?"""
  more = numbered(suffix, len(tokens) + 1, folder)
  return _question('continuation', people, tokens, folder, more=more)
