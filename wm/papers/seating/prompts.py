"""Prompts of the seating puzzle, as the paper puts it to language models.

Names of people and statements come in; the text of a question goes out. The
structure is that of Vafa et al. 2024, section 4.2 and appendix; the words are
our own. `score` asks these questions and reads the replies.
"""

from __future__ import annotations

from collections.abc import Sequence

KEYWORD = 'ANSWER'


def statement(token: str) -> str:
  """One sentence from 'A@1' (A is in seat 1) or 'A-B=2' (2 seats apart)."""
  if '@' in token:
    person, seat = token.split('@')
    return f'{person} sits in seat {seat}.'
  pair, distance = token.split('=')
  person, other = pair.split('-')
  seats = 'seat' if distance == '1' else 'seats'
  return f'{person} sits {distance} {seats} away from {other}.'


def numbered(tokens: Sequence[str], first: int = 1) -> str:
  """Statements as lines, numbered from `first`."""
  return '\n'.join(
    f'{first + n}. {statement(token)}' for n, token in enumerate(tokens)
  )


def scene(people: Sequence[str], tokens: Sequence[str]) -> str:
  """Who is to be seated where, and what is known so far."""
  num = len(people)
  names = ', '.join(people[:-1]) + f' and {people[-1]}'
  statements = numbered(tokens) or '(nothing yet)'
  return (
    f'{num} people, {names}, take {num} seats in a row. The seats are numbered '
    f'1 to {num} from left to right, and each seats exactly one person. Two '
    'people whose seat numbers differ by 1 sit 1 seat away from each other, '
    'by 2, 2 seats away, and so on.\n\n'
    f'This is known about who sits where:\n{statements}'
  )


def _closing(form: str) -> str:
  return (
    'You may reason step by step. Finish with a line of its own that reads '
    f'"{KEYWORD}: " followed by {form}.'
  )


def seat_question(
  people: Sequence[str], tokens: Sequence[str], person: str
) -> str:
  """Prompt: where is a person seated, given these statements?"""
  closing = _closing('the number of the seat')
  return f'{scene(people, tokens)}\n\nWhere is {person} seated? {closing}'


def continuation_question(
  people: Sequence[str], tokens: Sequence[str], suffix: Sequence[str]
) -> str:
  """Prompt: are the statements of `suffix` a valid continuation?"""
  more = numbered(suffix, first=len(tokens) + 1)
  return (
    f'{scene(people, tokens)}\n\n'
    f'Somebody proposes to continue the list like this:\n{more}\n\n'
    'Is this a valid continuation, that is, can the people still be seated '
    'so that every statement on the longer list is true? '
    + _closing('yes or no')
  )
