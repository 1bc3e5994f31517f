"""Cautions: warnings of a report, by rules that metrics declare.

A rule judges the interval of one quantity, in the plainest setting of its
metric (`core.Caution`). A model has one line for all its cautions. Each seed is
judged by its own interval: an interval over two or three seeds is so wide that
it would hide a caution that is clear for each of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from wm import core
from wm.evaluation import results
from wm.reporting import catalog, ceilings, tables
from wm.reporting.collect import Entry, Run

_FIELD = re.compile(r'{(\w+)}')  # Of a rule's text.
_BASELINES = ceilings.UNTRAINED, ceilings.UNIFORM
# The one reason of this form that is the model's own.
_SILENT = 'no_answer'


class Warned(NamedTuple):
  """The cautions on one model.

  Attributes:
    label: label of the model.
    text: continues the sentence after the label.
    role: one of `ceilings.ROLES`.
  """

  label: str
  text: str
  role: str

  def __str__(self) -> str:
    """The caution as a sentence."""
    return f'{self.label} {self.text}.'


def cautions_of_runs(runs: Sequence[Run]) -> tuple[list[Warned], list[Warned]]:
  """Lines on models, trained ones first, and lines on baselines.

  Cautions on baselines are apart: a uniform guesser is expected to be bad. If a
  report has baselines alone, they count as models.
  """
  against, every = ceilings.Against(runs), []
  labels, trained = tables.labels(runs), ceilings.TRAINED in against.roles
  for place, (run, label) in enumerate(zip(runs, labels, strict=True)):
    role = against.roles[place]
    if trained and role == ceilings.NULL:
      continue  # It errs as the model does that it stands beside.
    clauses = [
      text
      for metric, seeds in _plain(run)
      for rule in catalog.metric_class(metric).cautions
      if (text := _clause(rule, seeds, against, place))
    ]
    # What was checked of the model itself, and how far it is trained.
    clauses += [text for e in run.entries for text in e.get('cautions', ())]
    nothing = sorted(
      {e['metric'] for e in run.entries if e.get('status') == results.NOTHING}
      - {e['metric'] for e in run.entries if e['n']}
    )
    # Of the others, such as a Bayes predictor, it is known what they lack.
    if nothing and (role == ceilings.TRAINED or not trained):
      clauses.append(f'could not be measured by {", ".join(nothing)}')
    if clauses:
      text = '; '.join(dict.fromkeys(clauses))
      every.append(Warned(label, text, role))
  every.sort(key=lambda line: line.role != ceilings.TRAINED)
  if all(role in _BASELINES for role in against.roles):
    return every, []
  parts: tuple[list[Warned], list[Warned]] = [], []
  for line in every:
    parts[line.role in _BASELINES].append(line)
  return parts


def cautions_of_worlds(runs: Sequence[Run]) -> list[str]:
  """Lines on worlds in which a metric's numbers are weaker than they seem."""
  return [
    *dict.fromkeys(
      f'{entry["world"]}: {entry["world_notes"]["caution"]}.'
      for run in runs
      for entry in run.entries
      if 'caution' in entry.get('world_notes', {})
    )
  ]


def _plain(run: Run) -> Iterator[tuple[str, list[Mapping[str, Entry]]]]:
  """Yields each metric, and quantity -> entry of each seed in its plainest
  setting.
  """
  for metric, spec in tables.plainest(run.entries).items():
    yield (
      metric,
      [
        {
          entry['quantity']: entry
          for entry in each.entries
          if entry['metric'] == metric and tables.spec(entry) == spec
        }
        for each in run.each or (run,)
      ],
    )


def _clause(
  rule: core.Caution,
  seeds: Sequence[Mapping[str, Entry]],
  against: ceilings.Against,
  place: int,
) -> str:
  """Returns the rule's text with means over its seeds; '' if none."""
  best = _best_value(rule, seeds, against, place)
  held = [values for values in seeds if _holds(rule, values, best)]
  if not held:
    return ''
  # Results of older versions may lack a quantity.
  numbers: dict[str, float | None] = {}
  for name in held[0]:
    several = [entry['value'] for values in held if (entry := values.get(name))]
    measured = [value for value in several if value is not None]
    numbers[name] = sum(measured) / len(measured) if measured else None
  value = numbers[rule.quantity]
  rest = None if value is None else 1 - value
  numbers |= {'value': value, 'rest': rest, 'best': best}
  shown = {name: tables.number(number, 2) for name, number in numbers.items()}
  text = _FIELD.sub(lambda field: shown.get(field[1], '–'), rule.text)
  if len(seeds) == 1:
    return text
  every = 'each' if len(held) == len(seeds) else str(len(held))
  return f'{text}, in {every} of {len(seeds)} seeds'


def _best_value(
  rule: core.Caution,
  seeds: Sequence[Mapping[str, Entry]],
  against: ceilings.Against,
  place: int,
) -> float | None:
  """The value of which a limit is a share; None if not measured."""
  if not rule.of_best:
    return 1.0
  for values in seeds:
    if entry := values.get(rule.quantity):
      ceiling = against.ceiling(place, entry)
      return ceiling[1]['value'] if ceiling else None
  return None


def _holds(
  rule: core.Caution, values: Mapping[str, Entry], best: float | None
) -> bool:
  """Does a rule apply to one seed?"""
  entry = values.get(rule.quantity)
  if entry is None or best is None:
    return False  # The best predictor there is may have less than 1.
  if entry['value'] is None:
    causes = [
      cause
      for cause in entry['unmeasured']
      if not cause.startswith('no_') or cause == _SILENT
    ]
    return bool(rule.unmeasured) and causes == [rule.unmeasured]
  low, high = ceilings.ends(entry)
  below = rule.below is not None and high < rule.below * best
  return below or (rule.above is not None and low > rule.above)
