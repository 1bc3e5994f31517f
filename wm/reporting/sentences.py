"""One sentence for each model: does it have a world model, and why?

Sentences are made from headline quantities in their plainest setting and their
95 % intervals, by the rules of `templates/answer_rules.txt`. The answer is yes
only if the whole interval of every quantity is near its ideal, and each side of
a world model that the world has was measured: a model that accepts everything
passes compression, one that leaks probability passes distinction.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from wm import core
from wm.core import registry
from wm.core.measure import lacks
from wm.metrics import audit as audits
from wm.reporting import catalog, ceilings, tables
from wm.reporting.collect import Entry

# The part of the way to the ideal that an interval must reach.
NEAR = 0.9
# No model is called partly right whose interval reaches below this.
FLOOR = 0.1
HOLDS, CEILING, FAILS, OPEN = ('passes', 'at its ceiling', 'fails', 'open')
YES, PART, NO, UNKNOWN, UNSHOWN = ANSWERS = (
  *('Yes', 'In part', 'No', 'Cannot tell', 'Not shown'),
)


# What measures show (`core.Measure.side`), most telling first.
SIDES = 'same', 'apart', 'real', 'mass', 'tasks', 'choice'
_NOTHING = ceilings.UNTRAINED, ceilings.UNIFORM
NEEDED = ('same', 'apart', 'real', 'mass', 'tasks')  # Of a yes.
THIS_WORLD = 'this world'
DOUBTS = YES, UNKNOWN, UNSHOWN
AUDIT = registry.plug_in_name(audits.Metric)  # It visits every state.
_CLAUSES = 3  # Measures that a sentence spells out.
_MOST = 4  # Models of which each pair is compared in words.


class JudgedMeasure(NamedTuple):
  """A headline quantity of a model, and whether it is near its ideal.

  Attributes:
    key: (metric, quantity).
    side: of SIDES that it shows, or ''.
    verdict: HOLDS, CEILING, FAILS or OPEN.
    entry: value and interval.
    clear: whether it is clear of the untrained model or uniform guessing.
  """

  key: tuple[str, str]
  side: str
  verdict: str
  entry: Entry
  clear: bool


class ModelAnswer(NamedTuple):
  """The page's answer on a model.

  Attributes:
    label: of the model.
    role: one of `ceilings.ROLES`.
    word: one of ANSWERS.
    text: the sentence that follows the word.
    judged: the measures behind it.
  """

  label: str
  role: str
  word: str
  text: str
  judged: tuple[JudgedMeasure, ...]

  def __str__(self) -> str:
    """The answer as a line of a page."""
    return f'{self.label}: {self.word}. {self.text}'


def plain(frame: pd.DataFrame) -> pd.DataFrame:
  """Headline rows of `tables.results` in their plainest setting, no series."""
  mask = (frame.headline != '') & frame['at'].isna() & frame.plain.astype(bool)
  return frame[mask]


def ideal(metric: str, quantity: str) -> tuple[float | None, str]:
  """The ideal value of a quantity (None without one), and its meaning."""
  measure = catalog.measure(metric, quantity)
  if measure is None or measure.best is None:
    return None, ''
  return float(measure.best), f'{measure.best:g}: {measure.good}'


def answers(frame: pd.DataFrame) -> list[ModelAnswer]:
  """An answer for each run of `tables.results` that has headline results."""
  shown, result = plain(frame), []
  sides = {world: sides_of(world, frame.metric) for world in {*shown.world}}
  anchors = _anchors(shown)
  for _, rows in shown.groupby('run', sort=False):
    first = rows.iloc[0]
    asked = sides[first.world]
    judged = tuple(
      each
      for each in _judged_rows(anchors, rows)
      if each.side in asked or each.side not in NEEDED
    )
    word = _word(judged, asked)
    text = _sentence(word, judged, asked, noun(first.world))
    mine = (frame.run == first.run) & (frame.metric == AUDIT)
    if audited := _audited(frame[mine & frame.plain.astype(bool)]):
      word = YES if audited.is_right else PART if word in DOUBTS else word
      move = str(getattr(_class_of(first.world), 'move', 'move'))
      text = ' '.join([audited.sentence(move), *_besides(judged)])
    result.append(ModelAnswer(first.model, first.role, word, text, judged))
  return result


def _audited(rows: pd.DataFrame) -> audits.AuditSummary | None:
  """The result of the audit of a run; None without one."""
  results = dict(zip(rows.quantity, rows.entry, strict=True))
  exact = results.get('exact')
  if exact is None or not exact['n']:
    return None
  summary = audits.summary(results)
  # Counts of several seeds together are those of the first.
  return summary._replace(moves=0) if exact.get('seeds') else summary


def _besides(judged: Sequence[JudgedMeasure]) -> Iterator[str]:
  """Sentences on tasks, and on sampled measures that fail.

  They are no evidence on whether a model has the right moves.
  """
  for each in judged:
    if each.side == 'tasks':
      text = _clause(each)
      yield f'{text[:1].upper()}{text[1:]}.'
  fails = [
    each
    for each in judged
    if each.verdict == FAILS and each.side != 'tasks' and each.key[0] != AUDIT
  ]
  if fails:
    yield f'In trials {_clauses(fails, "only ")}.'


def sides_of(world: str, metrics: Iterable[str]) -> tuple[str, ...]:
  """The sides in NEEDED that a world has: a metric can show them there.

  Args:
    world: its spec; a world in an untrusted file has all sides.
    metrics: names of the report's metrics, a user's among them.
  """
  kind = ceilings.kind(world)
  if not kind or not catalog.is_known(kind):
    return NEEDED
  of = registry.find('world', kind)
  sides = {
    measure.side
    for name in {*metrics, *registry.names('metric')}
    if not lacks(metric := catalog.metric_class(name), of)
    for measure in metric.measures.values()
    if measure.needs is None or core.can(of, measure.needs)
  }
  return tuple(side for side in NEEDED if side in sides)


# (spec, quantity, kind of world) -> (role, world, entry) of baselines and
# ceilings.
_Anchors = Mapping[tuple[str, str, str], Sequence[tuple[str, str, Entry]]]


def _anchors(shown: pd.DataFrame) -> _Anchors:
  anchors: dict[tuple[str, str, str], list[tuple[str, str, Entry]]] = {}
  rows = shown[shown.role.isin([*_NOTHING, *ceilings.NAMES])]
  for row in rows[rows.value.notna()].itertuples():
    key = row.spec, row.quantity, ceilings.kind(row.world)
    anchors.setdefault(key, []).append((row.role, row.world, row.entry))
  return anchors


def _judged_rows(
  anchors: _Anchors, rows: pd.DataFrame
) -> Iterator[JudgedMeasure]:
  """Judges the rows of one run that have an ideal, a value and a scale."""
  for row in rows.itertuples():
    entry, key = row.entry, (row.metric, row.quantity)
    best = ideal(*key)[0]
    if best is None or entry['value'] is None:
      continue
    measure = catalog.measure(*key)
    if row.role == ceilings.ORACLE and measure and measure.likely:
      continue
    same = anchors.get((row.spec, row.quantity, ceilings.kind(row.world)), ())
    by_role = {
      role: anchor
      for role, world, anchor in same
      if role not in ceilings.NAMES or world == row.world
    }
    top = next((x for k in ceilings.NAMES if (x := by_role.get(k))), None)
    by_role.pop(row.role, None)
    floor = next((x for k in _NOTHING if (x := by_role.get(k))), None)
    scale = _scale(entry, best, floor)
    if scale:
      judged = _judge(key, entry, best, scale, floor, top)
      # Who has learned nothing has nothing in part.
      yield judged._replace(clear=judged.clear and row.role not in _NOTHING)


def _scale(
  entry: Entry, best: float, floor: Mapping[str, Any] | None
) -> float | None:
  """Distance of an untrained model from the ideal; None if unknown."""
  least, most = entry.get('least'), entry.get('most')
  if least is not None and most is not None and most > least:
    return float(max(abs(best - least), abs(most - best)))
  if floor is None:
    # Shares of results that do not state their limits.
    return 1.0 if best == 1 and 0 <= entry['value'] <= 1 else None
  return abs(best - floor['value']) or None


def _reach(
  entry: Mapping[str, Any], best: float, scale: float
) -> tuple[float, float]:
  """Ends of an interval on the scale from nothing learned (0) to ideal (1)."""
  ends = [1 - abs(best - end) / scale for end in ceilings.ends(entry)]
  return min(ends), max(ends)


def _judge(
  key: tuple[str, str],
  entry: Entry,
  best: float,
  scale: float,
  floor: Entry | None,
  top: Entry | None,
) -> JudgedMeasure:
  worst, nearest = _reach(entry, best, scale)
  reached = 1 - abs(best - top['value']) / scale if top else 1.0
  limit = NEAR * min(reached, 1.0)
  low = max(FLOOR, _reach(floor, best, scale)[1] if floor else 0.0)
  if entry['low'] is None and nearest >= limit:
    verdict = OPEN  # One value says nothing of how far others may be off.
  elif worst >= NEAR:
    verdict = HOLDS
  elif nearest < limit:
    verdict = FAILS
  else:
    verdict = CEILING if worst >= limit else OPEN
  measure = catalog.measure(*key)
  side = measure.side if measure else ''
  return JudgedMeasure(key, side, verdict, entry, worst > low)


def _word(judged: Sequence[JudgedMeasure], asked: Sequence[str]) -> str:
  """The answer by the rules, one of ANSWERS; asked: the sides of the world."""
  verdicts = {each.verdict for each in judged}
  if FAILS not in verdicts:
    if OPEN in verdicts:
      return UNKNOWN
    held = {each.side for each in judged if each.verdict == HOLDS}
    full = verdicts == {HOLDS} and held.issuperset({*asked, 'apart'})
    return YES if full else UNSHOWN
  tested = [each for each in judged if each.side == 'apart'] or [
    each for each in judged if each.verdict == FAILS and each.side != 'same'
  ]
  if any(each.clear for each in tested):
    return PART
  return UNKNOWN if any(each.verdict == OPEN for each in tested) else NO


def _sentence(
  word: str, judged: Sequence[JudgedMeasure], asked: Sequence[str], of: str
) -> str:
  order = [*SIDES, '']
  judged = sorted(judged, key=lambda each: order.index(each.side))
  by_verdict: dict[str, list[JudgedMeasure]] = {}
  for each in judged:
    by_verdict.setdefault(each.verdict, []).append(each)
  holds, fails, doubtful = (
    by_verdict.get(verdict, []) for verdict in (HOLDS, FAILS, OPEN)
  )
  if word == YES:
    worst = min(judged, key=lambda each: ceilings.ends(each.entry)[0])
    words = {'num': len(judged), 'worst': _clause(worst)}
    return tables.note('yes', of=of, **words)
  if word == UNSHOWN:
    measured = {each.side for each in judged}
    missing = [
      tables.note('question', side=x) for x in asked if x not in measured
    ]
    return tables.note(
      'unshown',
      num=len(judged),
      below=len(by_verdict.get(CEILING, [])),
      clauses=_clauses(judged),
      missing=joined(missing),
      comparable='apart' in asked,
      of=of,
    )
  if word == UNKNOWN and not fails:
    words = {'trials': _trials(doubtful), 'clauses': _clauses(doubtful)}
    return tables.note('unknown', of=of, **words)
  if word == UNKNOWN:
    apart = next(each for each in judged if each.side == 'apart')
    words = {'trials': _trials([apart]), 'apart': _clause(apart)}
    text = tables.note('errors', fails=_clauses(fails), **words)
  else:
    but = [each for each in holds if each.side == 'choice'] or holds
    words = {'fails': _clauses(fails, 'only '), 'but': [*map(_clause, but[:1])]}
    text = tables.note('no', of='' if word == PART else of, **words)
  return text[:1].upper() + text[1:]


def _trials(several: Sequence[JudgedMeasure]) -> str:
  """'n = 53 trials', of the measure with the fewest independent ones."""
  fewest = min(
    (each.entry.get('clusters') or each.entry['n'], each.entry['n'])
    for each in several
  )
  text = f'n = {fewest[1]} trials'
  if fewest[0] < fewest[1]:
    text += f' of only {fewest[0]} independent states or tasks'
  return text


def _clauses(several: Sequence[JudgedMeasure], only: str = '') -> str:
  if not several:
    return ''
  shown = [_clause(each, only) for each in several[:_CLAUSES]]
  more = len(several) - len(shown)
  beside = f' (and {more} more measure{"s" * (more > 1)})' if more else ''
  return joined(shown) + beside


def _clause(each: JudgedMeasure, only: str = '') -> str:
  if each.side:
    share = f'{only}{_percent(each.entry)}'
    return tables.note('clause', side=each.side, value=share)
  metric, quantity = (name.replace('_', ' ') for name in each.key)
  best, _ = ideal(*each.key)
  only = '' if best == 0 else only  # Of an error more is worse.
  return f'it has {only}{value(each.entry)} in "{metric}: {quantity}"'


def _percent(entry: Mapping[str, Any]) -> str:
  """'45 % [41, 50]'."""
  low, high = (100 * end for end in ceilings.ends(entry))
  text = f'{100 * entry["value"]:.0f} %'
  return text if entry['low'] is None else f'{text} [{low:.0f}, {high:.0f}]'


def value(entry: Mapping[str, Any]) -> str:
  """'0.45 [0.41, 0.50]', as pictures and sentences show a result."""
  digits = '.2f' if abs(entry['value']) < 10 else '.3g'
  text = f'{entry["value"]:{digits}}'
  low, high = ceilings.ends(entry)
  none = entry['low'] is None
  return text if none else f'{text} [{low:{digits}}, {high:{digits}}]'


def noun(world: str) -> str:
  """The name of a world in questions: 'this city'; 'this world' if unknown."""
  return str(getattr(_class_of(world), 'noun', THIS_WORLD))


def _class_of(world: str) -> Any:
  """The class of a world; None if its code may not run."""
  kind = ceilings.kind(world)
  if not kind or not catalog.is_known(kind):
    return None
  return registry.find('world', kind)


def question(frame: pd.DataFrame) -> str:
  """The title: 'Does random_walks have a world model of this city?'"""
  subjects = _subjects(frame)
  names = list(dict.fromkeys(subjects.model))
  nouns = list(dict.fromkeys(map(noun, subjects.world)))
  if not names:
    return 'World models, measured'
  of = nouns[0] if len(nouns) == 1 else 'its world'
  if len(names) == 1:
    return f'Does {names[0]} have a world model of {of}?'
  return f'Which of these models has a world model of {of}?'


def _subjects(frame: pd.DataFrame) -> pd.DataFrame:
  """Rows of trained models; all rows if no model is trained."""
  trained = frame[frame.role == ceilings.TRAINED]
  return trained if len(trained) else frame


def joined(names: Sequence[str]) -> str:
  """'a, b and c'; '' of none."""
  return ' and '.join(filter(None, [', '.join(names[:-1]), *names[-1:]]))


# Where thresholds disagree.

_BY_EPSILON = '_by_epsilon'  # Ends the name of a quantity with a curve.


def threshold_notes(parts: pd.DataFrame) -> Iterator[str]:
  """Sentences on pairs of trained models whose order depends on epsilon, and
  on pairs whose order does not.

  Models are compared by their intervals at each threshold of a curve.

  Args:
    parts: `tables.results` of breakdowns.
  """
  mask = parts.quantity.astype(str).str.endswith(_BY_EPSILON)
  mask &= (parts.column == 'epsilon') & (parts.role == ceilings.TRAINED)
  shown = parts[mask & parts.value.notna()]
  # Models of one city are compared whatever their data were sampled by.
  rules = [entry.get('rules') or entry['world'] for entry in shown.entry]
  shown = shown.assign(rules=rules)
  keys = ['rules', 'metric', 'quantity', 'spec']
  for (_, metric, quantity, _), rows in shown.groupby(keys, sort=False):
    measure = catalog.measure(metric, quantity)
    if measure is None or not measure.panel:
      continue
    of = f'{metric} {quantity.removesuffix(_BY_EPSILON)}'
    curves = {
      model: dict(zip(points.place, points.entry, strict=True))
      for model, points in rows.groupby('model', sort=False)
    }
    steady = []
    pairs = itertools.combinations(curves, 2) if len(curves) <= _MOST else ()
    for names in pairs:
      above = _above([curves[name] for name in names])
      if all(above):
        values = [_compared(places, *names, curves) for places in above]
        words = {'first': names[0], 'other': names[1], 'of': of}
        yield tables.note('reversed', above=values[0], below=values[1], **words)
      both = len(curves[names[0]].keys() & curves[names[1]].keys())
      for side, places in enumerate(above):
        if len(places) == both > 1:
          steady.append(f'{names[side]} above {names[1 - side]}')
    if steady:
      places = sorted({x for curve in curves.values() for x in curve})
      span = f'{places[0]:g} to {places[-1]:g}'
      yield tables.note('steady', of=of, span=span, pairs=', '.join(steady))


_Curve = Mapping[float, Entry]  # Threshold -> entry.


def _above(curves: Sequence[_Curve]) -> tuple[list[float], list[float]]:
  """Thresholds at which the first of two models is clearly above the second,
  and the other way round.
  """
  above: tuple[list[float], list[float]] = ([], [])
  for place in sorted(curves[0].keys() & curves[1].keys()):
    ends = [ceilings.ends(curve[place]) for curve in curves]
    for side in (0, 1):
      if ends[side][0] > ends[1 - side][1]:
        above[side].append(place)
  return above


def _compared(
  places: Sequence[float], first: str, other: str, curves: Mapping[str, _Curve]
) -> str:
  """'0.01 (0.29 and 0.41)', thresholds and both values there."""
  return joined(
    [
      f'{x:g} ({curves[first][x]["value"]:.2f} and '
      f'{curves[other][x]["value"]:.2f})'
      for x in places
    ]
  )
