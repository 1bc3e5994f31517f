"""What CogEval's paper claims, decided by scored answers with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from wm.evaluation import statistics
from wm.language import rescored
from wm.language.cogeval import clusters, scores, tables
from wm.reporting.tables import Table

LARGE = ('n15star', 'n16cluster', 'n21star')
FOUR_STEPS = 'nstepPath'  # Of the large graphs, whose diameter is 4.


class Claim(NamedTuple):
  """A claim and what answers say of it.

  Attributes:
    claim: in a sentence.
    paper: what it prints.
    found: our number, with its interval.
    holds: 'yes', 'no', or 'not sure' where the interval has both; 'not against
      it' where it has a printed number.
  """

  claim: str
  paper: str
  found: str
  holds: str


def harder(frame: pd.DataFrame, score: str, model: str) -> list[Claim]:
  """The tree is harder than the long chains, and graph D than graph E."""
  own = frame[frame['model'] == model]
  made = []
  for first, second in tables.printed()['claims']['harder']:
    some, other = own[own['graph'] == first], own[own['graph'] == second]
    if some[score].notna().any() and other[score].notna().any():
      one = clusters.contrast(some, other, score)
      letters = scores.LETTERS[first], scores.LETTERS[second]
      made.append(
        Claim(
          f'{tables.label(model)} does worse on {letters[0]} than on '
          f'{letters[1]} ({score} score)',
          f'{letters[0]} < {letters[1]}',
          f'{one.first:.3f} and {one.second:.3f}, difference '
          f'{one.difference:+.3f} [{one.low:+.3f}, {one.high:+.3f}], '
          f'n={one.questions} questions',
          _decided(one.low, one.high, 0),
        )
      )
  return made


def _decided(low: float, high: float, bound: float) -> str:
  """Is what an interval has above a bound?"""
  if low > bound:
    return 'yes'
  return 'no' if high < bound else 'not sure'


def hallucinated(frame: pd.DataFrame, model: str) -> list[Claim]:
  """Plans of four steps on D, E and F name edges that are not there."""
  some = frame[
    (frame['model'] == model)
    & (frame['condition'] == FOUR_STEPS)
    & frame['graph'].isin(LARGE)
    & frame['outcome'].notna()
  ]
  some = some.assign(wrong=(some['outcome'] == 'hallucinated_edge') * 1.0)
  bound = tables.printed()['claims']['hallucinated_edges_of_four_steps']
  made = []
  for graph in LARGE:
    own = some[some['graph'] == graph]
    if own.empty:
      continue
    mean = clusters.mean(own, 'wrong')
    made.append(
      Claim(
        f'{tables.label(model)} invents an edge in plans of four steps on '
        f'{scores.LETTERS[graph]}',
        f'over {bound:.0%}',
        tables.interval(mean),
        _decided(mean.low, mean.high, bound),
      )
    )
  return made


def one_cluster_away(
  right: Sequence[tuple[float, bool]],
) -> list[Claim]:
  """The way from 1 to 12 in graph D is never found at low temperatures.

  right: (temperature, is the answer one of the authors' keys?).
  """
  said = tables.printed()['claims']['one_cluster_away']
  made = []
  for temperature, printed in zip((0.0, 0.5, 1.0), said, strict=True):
    own = [float(ok) for t, ok in right if t == temperature]
    if own:
      share = sum(own) / len(own)
      low, high = (float(x) for x in statistics.proportion(share, len(own)))
      made.append(
        Claim(
          'GPT-4-32k finds the way to a room one cluster away at '
          f'temperature {temperature:g}',
          f'{printed:.2f}, n=30',
          f'{share:.3f} [{low:.3f}, {high:.3f}], n={len(own)} with text',
          'not against it' if low <= printed <= high else 'no',
        )
      )
  return made


def table(claims: Sequence[Claim]) -> Table:
  """A row for each claim."""
  return rescored.table(
    'Claims',
    [one._asdict() for one in claims],
    'An interval decides: 95 %, by questions. The prompt of graph D that the '
    'paper used tells of more edges than its answer keys know.',
  )


class Judges(NamedTuple):
  """Two judges of the same answers.

  Attributes:
    n, agreement, kappa: answers, share of the same verdicts, and Cohen's kappa.
    counts: (first, second) -> answers.
  """

  n: int
  agreement: float
  kappa: float
  counts: dict[tuple[int, int], int]


def judges(
  frame: pd.DataFrame, first: str = 'recorded', second: str = 'solver'
) -> Judges:
  """How often two scores, each 0 or 1, are the same."""
  some = frame[frame[first].notna() & frame[second].notna()]
  both = [(some[name].clip(0, 1) > 0.5).astype(int) for name in (first, second)]
  found = some.groupby(both).size()
  counts = {(a, b): int(found.get((a, b), 0)) for a in (0, 1) for b in (0, 1)}
  n = sum(counts.values())
  same = (counts[0, 0] + counts[1, 1]) / n
  ones = [
    (counts[1, 1] + counts[1, 0]) / n,
    (counts[1, 1] + counts[0, 1]) / n,
  ]
  chance = ones[0] * ones[1] + (1 - ones[0]) * (1 - ones[1])
  kappa = (same - chance) / (1 - chance) if chance < 1 else 1.0
  return Judges(n, same, kappa, counts)


def judges_table(frame: pd.DataFrame) -> Table:
  """The authors' judge beside the solver, over all and by graph and domain."""
  rows = []
  for (graph, domain), own in [
    (('all', 'all'), frame),
    *sorted(
      frame.groupby(['graph', 'domain'], observed=True),
      key=lambda one: [*scores.LETTERS].index(one[0][0]),
    ),
  ]:
    if not (own['recorded'].notna() & own['solver'].notna()).any():
      continue
    one = judges(own)
    rows.append(
      {
        'graph': scores.LETTERS.get(str(graph), str(graph)),
        'domain': str(domain),
        'n': one.n,
        'agreement': one.agreement,
        'kappa': one.kappa,
        'right by the judge alone': one.counts[1, 0],
        'right by the solver alone': one.counts[0, 1],
      }
    )
  return rescored.table(
    "The authors' judge (a language model) and the solver", rows, folded=True
  )
