"""Paired test: are questions in shared prompts answered like single questions?

Batch prompting (Cheng et al. 2023, EMNLP Industry Track) asks several questions
in one prompt. A model may answer them worse than single questions, so the same
questions are first asked in both forms. The shares of right answers and of yes
must be within MARGIN of each other, by two one-sided tests (Schuirmann 1987),
clustered by the questions' prefixes.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from wm import core
from wm.core import queries
from wm.core.queries import Answer, Query
from wm.evaluation import comparisons

MARGIN = 0.1
LEVEL = 0.05
# Numbers of pairs after which the test looks; looks share LEVEL (Bonferroni).
PAIRS = 50, 100, 200, 400


def sample(
  questions: Sequence[Query], per_prompt: int
) -> list[tuple[Query, list[Query]]]:
  """Questions to ask in both forms, each with all questions of its prompt.

  The first question of each prompt comes first, then the second of each, and so
  on, because answers in one prompt may be dependent. Prompts are in random
  order, by a hash of their text. [] if no prompt is shared.
  """

  def mark(query: Query) -> bytes:
    data = query.prompt.encode('utf-8', 'surrogatepass')
    return hashlib.sha256(data).digest()

  # Not by the metric's order, which may tell what is right.
  once = {query.prompt: query for query in questions}
  groups = queries.grouped([*once.values()], per_prompt)
  ranked = [sorted(group, key=mark) for group in groups if len(group) > 1]
  ranked.sort(key=lambda group: mark(group[0]))
  return [
    (query, group)
    for queries_of_round in itertools.zip_longest(*ranked)
    for query, group in zip(queries_of_round, ranked, strict=True)
    if query is not None
  ]


class FormComparison(NamedTuple):
  """One share in both forms.

  Attributes:
    name: 'right answers' or 'yes'.
    shared, single: the share in shared prompts, and for single questions.
    difference: the first minus the second.
  """

  name: str
  shared: float
  single: float
  difference: comparisons.Difference

  def __str__(self) -> str:
    low, high = self.difference.low, self.difference.high
    interval = '' if low is None else f' [{low:.3f}, {high:.3f}]'
    return (
      f'{self.name} of {self.difference.n} questions: {self.shared:.3f} in '
      f'shared prompts, {self.single:.3f} alone, difference '
      f'{self.shared - self.single:.3f}{interval}'
    )


def compare(
  world: core.World,
  asked: Sequence[Query],
  shared: Sequence[Answer],
  single: Sequence[Answer],
  unreadable: Collection[str],
) -> list[FormComparison]:
  """Compares answers to the same questions in both forms.

  An unreadable answer counts as wrong, and not as yes. Questions whose call
  failed in either form are left out.

  Args:
    world: world that decides the right answers.
    asked: the questions, of kind YES_NO.
    shared, single: answers in shared prompts, and to single questions.
    unreadable: failures that are the model's own, not those of a call.
  """
  # A model that misreads a prefix is wrong in all questions about it.
  prefixes = {query.prefix: number for number, query in enumerate(asked)}
  cluster = np.array([prefixes[query.prefix] for query in asked])
  reason = [
    next((x.failure for x in pair if x.failure not in ('', *unreadable)), '')
    for pair in zip(shared, single, strict=True)
  ]
  # Equal shares of right answers may hide different shares of yes, which would
  # move compression and distinction in opposite directions.
  targets = {
    'right answers': queries.truths(world, asked),
    'yes': [True] * len(asked),
  }
  table = []
  for name, target in targets.items():
    first, second = (
      core.scores(
        name,
        [x.value == right for x, right in zip(side, target, strict=True)],
        reason=reason,
        group=cluster,
      )
      for side in (shared, single)
    )
    difference = comparisons.paired(first, second)
    table.append(
      FormComparison(name, _share(first), _share(second), difference)
    )
  return table


def _share(scores: core.Scores) -> float:
  measured = scores.value[scores.measured]
  return float(measured.mean()) if measured.size else math.nan


def verdict(table: Sequence[FormComparison], level: float = LEVEL) -> str:
  """'alike' (within MARGIN), 'apart' (beyond it), or 'undecided'."""
  # Both shares must be near: no correction. Either may be far: correct for two.
  differences = [row.difference for row in table]
  if max(comparisons.absent(each, MARGIN) for each in differences) < level:
    return 'alike'
  beyond = [
    comparisons.beyond(each, sign * MARGIN, sign)
    for each in differences
    for sign in (1, -1)
  ]
  return 'apart' if min(beyond) < level / len(beyond) else 'undecided'


def check(
  questions: Sequence[Query],
  predictor: Any,
  world: core.World,
  log: Callable[[str], None],
) -> None:
  """Asks questions both ways until a look decides; see PAIRS.

  Args:
    questions: all planned questions; answers in shared prompts are reused.
    predictor: a language model.
    world: world that decides the right answers.
    log: gets the numbers of each look.

  Raises:
    InputError: the forms are apart, or undecided after all pairs.
  """
  per_prompt = predictor.backend.per_prompt
  pairs = sample(questions, per_prompt)
  if not pairs:
    return
  for num in PAIRS:
    asked = [query for query, _ in pairs[:num]]
    # Whole prompts, as they will be asked.
    predictor.ask([*itertools.chain(*(group for _, group in pairs[:num]))])
    shared, single = (
      model.ask(asked) for model in (predictor, predictor.single())
    )
    # Questions that the budget refused do not count for either form.
    ledger = predictor.backend.ledger
    if ledger is not None and ledger.closed:
      raise core.InputError(
        f'budget: it is used up after {num} questions of the paired test of '
        f'per_prompt={per_prompt}; expected more, or per_prompt=1'
      )
    table = compare(world, asked, shared, single, predictor.unreadable)
    for row in table:
      log(str(row))
    outcome = verdict(table, LEVEL / len(PAIRS))
    if outcome == 'alike':
      return
    if outcome == 'apart' or num >= len(pairs):
      break
  raise core.InputError(
    f'per_prompt={per_prompt}: {table[0]}; {table[1]}; both forms are '
    f'{outcome}, expected differences shown to be below {MARGIN:g}, or '
    'per_prompt=1'
  )
