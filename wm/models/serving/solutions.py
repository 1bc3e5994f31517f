"""Solutions of questions about worlds, for the known answers `wm/solver` etc.

They are metadata of a question, as JSON values:

  kind     of core.queries: what is asked for
  right    the right answer in words
  stale    the right answer before the world changed, if it did
  choices  what can be answered: 'Yes.' and 'No.', the names of tokens, labels
  num      labels that are asked for
"""

from __future__ import annotations

import collections
import hashlib
import re
from collections.abc import Sequence
from typing import Any

from wm import core
from wm.core import queries, verbal
from wm.core.queries import Query
from wm.models.serving import llm_predictor

PREFIX = 'wm/'  # Of the models that known answers are asked of.
_LABELLED = re.compile(r'^\d+\. (.*)$', re.MULTILINE)


def of(
  world: verbal.Verbal,
  telling: verbal.PromptStyle,
  before: verbal.Verbal | None,
  questions: Sequence[Query],
) -> list[dict[str, Any]]:
  """The solution of each question.

  Args:
    world: that questions are about.
    telling: how it is told, hence the names of its tokens.
    before: the world told first, as what held before a change.
    questions: of any kind.
  """
  names = world.token_names(telling)
  truths = queries.truths(world, questions)
  stale = queries.truths(before, questions) if before else truths
  return [
    _labels(world, names, question)
    if question.kind == queries.LABELS
    else {
      'kind': question.kind,
      'right': _written(question, names, truth),
      'stale': _written(question, names, old),
      'choices': _choices(question, names),
      'num': 1,
    }
    for question, truth, old in zip(questions, truths, stale, strict=True)
  ]


def _choices(question: Query, names: Sequence[str]) -> list[str]:
  if question.kind == queries.YES_NO:
    return ['Yes.', 'No.']
  if question.kind == queries.ALL_NEXT:
    return [name for token, name in enumerate(names) if token != core.PAD]
  return [names[token] for (token,) in question.suffixes]


def _written(question: Query, names: Sequence[str], truth: Any) -> str:
  """A truth, see `queries.truths`, in words."""
  if question.kind == queries.YES_NO:
    return 'Yes.' if truth else 'No.'
  if question.kind == queries.ALL_NEXT:
    listed = '; '.join(names[token] for token in truth)
    return f'Answer: {listed or verbal.NOTHING}'
  if truth == core.DEAD:
    return 'Answer: unknown'
  (token,) = question.suffixes[truth]
  return f'Answer: {names[token]}'


def _labels(
  world: core.World, names: Sequence[str], question: Query
) -> dict[str, Any]:
  """The label of each sequence's state, as the examples of a prompt have it.

  Sequences are read from the prompt, as a question of this kind has no tokens.
  A state without a label gets a class by a hash of the prompt and of the
  state's place in it; numbers are means, of all labels where there are none.
  """
  _, _, text = question.prompt.rpartition(llm_predictor.SHOWN)
  shown, _, truth = text.partition(llm_predictor.WANTED)
  pairs = [line.rpartition(': ') for line in _LABELLED.findall(shown)]
  asked = _LABELLED.findall(truth)
  ((_, _, classes),) = question.suffixes
  states = _states(world, names, [words for words, _, _ in pairs] + asked)
  labels = collections.defaultdict(list)
  for state, (_, _, label) in zip(states, pairs, strict=False):
    labels[state].append(label)
  every = [label for _, _, label in pairs]
  answers: list[str] = []
  order: dict[int, int] = {}
  for state in states[len(pairs) :]:
    if not classes:
      answers.append(_mean(labels.get(state, every)))
      continue
    place = order.setdefault(state, len(order))
    digest = hashlib.sha256(f'{place} {question.prompt}'.encode()).digest()
    votes = collections.Counter(labels.get(state, [str(digest[0] % classes)]))
    answers.append(min(votes, key=lambda label: (-votes[label], label)))
  right = f'Answer: [{", ".join(answers)}]'
  return {
    'kind': question.kind,
    'right': right,
    'stale': right,
    'choices': [str(k) for k in range(classes)] or every,
    'num': len(asked),
  }


def _states(
  world: core.World, names: Sequence[str], sequences: Sequence[str]
) -> list[int]:
  """The state after each sequence in words."""
  tokens = {name: token for token, name in enumerate(names)}
  rows = [
    tuple(tokens[name] for name in words.split(', ')) for words in sequences
  ]
  _, states = world.walk(world.init(len(rows)), *queries.table(rows))
  ids: list[int] = world.state_id(states).tolist()
  return ids


def _mean(labels: Sequence[str]) -> str:
  """Mean of numbers, or of lists of them, as they are written."""
  rows = [[float(x) for x in label.strip('[]').split(', ')] for label in labels]
  means = [
    f'{sum(column) / len(rows):.6g}' for column in zip(*rows, strict=True)
  ]
  return means[0] if len(means) == 1 else f'[{", ".join(means)}]'
