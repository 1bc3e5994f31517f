"""The score of CogEval's paper, which is not published: shared leading words.

Recovered from scores that its repository held in May 2023. What was matched of
a reply begins with the word 'Answer:', and that word counts, so that a wrong
answer of one word has half of all. It is here to read the paper's numbers by,
and for nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

WORD = 'Answer:'


def token_score(answer: str, keys: Sequence[str]) -> float:
  """Share of leading words that an answer shares with its keys.

  1 where the answer is a key. Else the number of leading words shared, over
  the number of words of the longer one; the least over all keys.

  Args:
    answer: from the word 'Answer:' on; '' where nothing was matched.
    keys: right answers, with that word.
  """
  if answer in keys:
    return 1.0
  said = answer.split()
  if not said or not keys:
    return 0.0
  return min(_shared(said, key.split()) for key in keys)


def _shared(said: list[str], key: list[str]) -> float:
  shared = 0
  for one, other in zip(said, key, strict=False):
    if one != other:
      break
    shared += 1
  return shared / max(len(said), len(key))


def matched(text: str) -> str:
  """A reply's first 'Answer:' and the rest of its line; '' where it has none.

  The paper searched for a regular expression, whose first match counts.
  """
  place = text.find(WORD)
  return text[place:].split('\n', 1)[0].strip() if place >= 0 else ''
