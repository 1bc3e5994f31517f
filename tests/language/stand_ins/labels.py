"""Labels of sequences, by the states that a prompt's text says they lead to."""

from __future__ import annotations

import collections
import hashlib
import re
from collections.abc import Hashable
from typing import Any

from tests.language.stand_ins import base, worlds
from tests.language.stand_ins.asked import Asked

_PARTS = re.compile(
  r'\n\nSome sequences have labels\. Each line is a sequence and its label\.\n'
  r'(?P<shown>.*)\n\nThese sequences have labels of the same kind\.\n'
  r'(?P<wanted>.*)\n\nWhich labels\? Write a list of \d+ labels in this order, '
  r'each (?P<form>[^\n]*), in square brackets after "Answer:"\.\s*$',
  re.DOTALL,
)
_LINE = re.compile(r'^\d+\. (.*)$', re.MULTILINE)


def answer(asked: Asked) -> str | None:
  """A label each, that of the state; None where a prompt wants no labels.

  States without a label get a coin each, by a hash of the prompt and of their
  order in it; where labels are numbers the mean of all.
  """
  result = _PARTS.search(asked.text)
  if result is None:
    return None
  shown = [line.rpartition(': ') for line in _LINE.findall(result['shown'])]
  expected = _LINE.findall(result['wanted'])
  known = [label for _, _, label in shown]
  real = 'number' in result['form']
  classes = [] if real else re.findall(r'\d+', result['form'])
  if asked.knows in ('yes', 'random'):
    said = [asked.one_of(classes or known) for _ in expected]
    return f'Answer: [{", ".join(said)}]'
  reading = worlds.told(asked.text[: result.start()].strip())
  if reading is None:
    return None
  by: dict[Hashable, list[str]] = collections.defaultdict(list)
  for words, _, label in shown:
    by[_state(reading, words)].append(label)
  said = []
  places: dict[Hashable, int] = {}
  for words in expected:
    state = _state(reading, words)
    if classes:
      place = places.setdefault(state, len(places))
      coin = hashlib.sha256(f'{place} {asked.text}'.encode()).digest()[0]
      seen = collections.Counter(by.get(state, [classes[coin % len(classes)]]))
      said.append(min(seen, key=lambda label: (-seen[label], label)))
    else:
      said.append(_mean(by.get(state, known)))
  return f'Answer: [{", ".join(said)}]'


def _state(reading: base.Reading, words: str) -> Any:
  return reading.follow(reading.start(), reading.split(words))


def _mean(labels: list[str]) -> str:
  """Mean of numbers, or of lists of them as they are written."""
  rows = [[float(x) for x in label.strip('[]').split(', ')] for label in labels]
  means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
  written = ', '.join(f'{mean:.6g}' for mean in means)
  return written if len(means) == 1 else f'[{written}]'
