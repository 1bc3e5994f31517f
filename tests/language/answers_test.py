"""Answers in the styles of today's models, with their truth.

`tuned.jsonl` is what the reader was tuned on. `held_apart.jsonl` was written
before the reader, and only its counts were looked at. `adversarial.jsonl` has
drafts, denials, hedges and remarks around answers, written against the reader.
"""

import collections
import json
import pathlib

import numpy as np
import pytest

from wm.language.answers import grammar, values
from wm.language.papers.forces import score as forces
from wm.language.papers.mango import questions as minigames
from wm.language.papers.mango import score as mango
from wm.worlds.cognitive_graph import questions

FOLDER = pathlib.Path(__file__).parent / 'answers'
STREETS = 'north', 'northeast', 'east', 'south', 'west', 'Mira', 'Kulo', 'Tebo'
NAMES = {name: k for k, name in enumerate((*STREETS, 'Sanu', 'end'), 1)}
ACTIONS = 'north', 'south', 'east', 'up', 'take lamp', 'enter car'
MOVES = 'north', 'south', 'east', 'west', 'up', 'down', 'in', 'enter car'


def _names(domain):
  return questions.node_names('n15star', domain, 22)


def _lowered(domain):
  lowered = {name.lower(): node for node, name in _names(domain).items()}
  return lowered | {'max': 15} if domain == 'socialTies' else lowered


def _read(row):
  """What is read of a row, or None."""
  text, task = row['text'], row['task']
  if task in ('yes_no', 'verdict'):
    return grammar.yes_no(text).value
  if task == 'one_next':
    names = ['north', 'northeast', 'east', 'west', 'Mira']
    place = grammar.choice(
      text, grammar.Spellings({name: k for k, name in enumerate(names)})
    ).value
    return None if place is None else names[place]
  if task == 'all_next':
    tokens = grammar.listed(text, grammar.Spellings(NAMES)).value
    names = ['?', *NAMES]
    return None if tokens is None else {names[token] for token in tokens}
  if task == 'moves':
    moves = mango.parse(text, actions=MOVES).moves
    return [list(move) for move in moves] or None
  if task == 'minigame':
    return minigames.judge_minigame(text, 'north', ACTIONS)[1] or None
  if task == 'count':
    return values.number(text, 'cluster').value
  if task == 'forces':
    force = forces.read(text, 5)
    return None if force.failure else force.force.tolist()
  nodes = values.path(text, _lowered(row['domain'])).value
  if nodes is None:
    return None
  known = [n for n in nodes if n != values.UNKNOWN]
  return known[0] if task == 'choice' else list(nodes)


def _truth(row):
  truth = row['truth']
  if truth is None:
    return None
  if row['task'] == 'all_next':
    return set(truth)
  return truth


def _outcome(row):
  """'' where a row is read rightly, 'unread', or 'silent', a wrong value."""
  value, truth = _read(row), _truth(row)
  if row['task'] == 'forces' and value and truth:
    return '' if np.allclose(value, truth, rtol=1e-12) else 'silent'
  if value == truth:
    return ''
  return 'unread' if value is None else 'silent'


def _rows(name):
  lines = (FOLDER / name).read_text(encoding='utf-8').splitlines()
  return [json.loads(line) for line in lines]


@pytest.mark.parametrize(
  ('name', 'num', 'share'),
  [
    ('tuned.jsonl', 487, 0.03),
    ('held_apart.jsonl', 185, 0.03),
    ('adversarial.jsonl', 82, 0.3),
  ],
)
def test_answers_are_read_or_unread_and_never_wrong(name, num, share):
  rows = _rows(name)
  assert len(rows) == num
  counts = collections.Counter(map(_outcome, rows))
  assert counts['silent'] == 0
  assert counts['unread'] <= share * num
