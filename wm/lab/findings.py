"""Findings of papers: rules that say which results would show them.

A findings.json is {"findings": [...]}. A finding has

    name, title     in files; and in a few words
    sentence        what the paper states
    paper, printed  which paper, and where in it
    miniature       the miniature whose results decide it
    date            ISO day on which the rule was fixed
    seeds           of each trained row that decide; default 3, at least 2.
                    They are the first, from --first_seed of the miniature's
                    flagfile on; later ones decide nothing
    claims          a list; the finding is their conjunction. Each has
      metric        name or spec; of the specs that have its fields, the
                    shortest is meant. 'map' is the reconstructed map
      quantity      of the metric, or of the map
      where         of a breakdown, as {"step": 20}; optional
      rows          that the claim is about
      relation      'above' or 'below': each row is, of each of `than`;
                    'ordered': each row is above the next
      than          rows; or a number; or another quantity of the same rows,
                    as {"metric": ..., "quantity": ..., "where": ...}, which is
                    compared seed by seed
      times         factor of `than`, or of the next row; default 1
      margin        smallest difference that counts, 0 or more; default 0
      variance      of a mean over seeds: 'trials', no less than that of each
                    seed's trials, is the default; 'seeds', that between seeds
      published     row -> the paper's value; optional
    earlier         judgements under another rule or of other seeds, a list of
                    {"date": ..., "rule": hash, "verdict": ...}; optional. Each
                    doubles the p values.
                    Units that were begun under one of these rules count
    picture         how it is drawn, see `wm.lab.miniatures`; optional

For example

    {
      "name": "walks_compress",
      "title": "random walks compress better",
      "sentence": "A model of random walks has the higher compression.",
      "paper": "Vafa et al. 2024",
      "printed": "table 1",
      "miniature": "maps",
      "date": "2026-01-31",
      "seeds": 3,
      "claims": [{
        "metric": "compression", "quantity": "precision",
        "rows": ["random_walks"], "relation": "above",
        "than": ["shortest_paths"], "margin": 0.05,
        "published": {"random_walks": 0.5, "shortest_paths": 0.1}
      }]
    }

All that decides a verdict (miniature, seeds, and the claims without
`published`) is the rule, and `Finding.rule_hash` its SHA-256. The result of a
unit records the hashes of the time when the first data of its row and seed were
begun (`wm.lab.units`), however often it is made again; a finding that is
judged by units of another rule is marked. `wm.lab.verdicts` judges.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import itertools
import json
import pathlib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from wm import core
from wm.core import inputs, registry, schema
from wm.runtime import files

RELATIONS = 'above', 'below', 'ordered'
VARIANCES = 'trials', 'seeds'
MAP = 'map'  # Instead of a metric's name.
REGISTRATION = 'registration'  # Of the file; and its hash among those of rules.
FEWEST_SEEDS = 2
_WORDS = 'name', 'title', 'sentence', 'paper', 'printed'
_DIGITS = 12  # Of a hash that is shown.
_NUMBER = int | float
_NAMES = schema.List(str)


class Quantity(NamedTuple):
  """A quantity of a unit; see the module's docstring."""

  metric: str
  quantity: str
  where: Mapping[str, Any] = {}

  def __str__(self) -> str:
    """'compression: precision, step 20'."""
    place = ''.join(f', {key} {value}' for key, value in self.where.items())
    return f'{self.metric}: {self.quantity}{place}'


@dataclasses.dataclass(frozen=True)
class Claim:
  """A statement about a quantity; see the module's docstring."""

  of: Quantity
  rows: tuple[str, ...]
  relation: str
  than: tuple[str, ...] | float | Quantity = ()
  times: float = 1.0
  margin: float = 0.0
  variance: str = 'trials'
  published: Mapping[str, float] = dataclasses.field(default_factory=dict)

  @property
  def others(self) -> tuple[str | float | Quantity, ...]:
    """All rows that `than` names."""
    alone = isinstance(self.than, float | Quantity)
    return (self.than,) if alone else self.than  # type: ignore

  @property
  def row_names(self) -> tuple[str, ...]:
    """All rows that the claim compares."""
    others = [other for other in self.others if isinstance(other, str)]
    return tuple(dict.fromkeys((*self.rows, *others)))

  @property
  def pairs(self) -> list[tuple[str, str | float | Quantity]]:
    """The comparisons of the claim: pairs of a row and its counterpart."""
    if self.relation == 'ordered':
      return list(itertools.pairwise(self.rows))
    return list(itertools.product(self.rows, self.others))

  def __str__(self) -> str:
    """In words."""
    times = '' if self.times == 1 else f'{self.times:g} times '
    margin = f' by more than {self.margin:g}' if self.margin else ''
    if self.relation == 'ordered':
      order = f' above {times}'.join(self.rows)
      return f'{self.of}: {order}{margin}'
    than = ', '.join(
      f'{x:g}' if isinstance(x, float) else str(x) for x in self.others
    )
    rows = ', '.join(self.rows)
    return f'{self.of}: {rows} {self.relation} {times}{than}{margin}'

  def rule(self) -> dict[str, Any]:
    """The parts that decide a verdict, without fields at their default."""
    rule = dataclasses.asdict(self)
    del rule['published']
    usual = {field.name: field.default for field in dataclasses.fields(self)}
    return {key: value for key, value in rule.items() if value != usual[key]}


class EarlierVerdict(NamedTuple):
  """An earlier judgement of a finding.

  Attributes:
    date: ISO day of its rule.
    rule: hash of the rule.
    verdict: one of `wm.lab.verdicts.VERDICTS`.
  """

  date: str
  rule: str
  verdict: str


@dataclasses.dataclass(frozen=True)
class Finding:
  """One finding of a paper; see the module's docstring."""

  name: str
  title: str
  sentence: str
  paper: str
  printed: str
  miniature: str
  date: str
  claims: tuple[Claim, ...]
  seeds: int = 3
  picture: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  earlier: tuple[EarlierVerdict, ...] = ()

  @property
  def cost(self) -> int:
    """Factor of its p values: doubled by each earlier judgement.

    All judgements together then err at most twice as often as one, however many
    they are.
    """
    return 2 ** len(self.earlier)

  @property
  def rule_hash(self) -> str:
    """First digits of the SHA-256 of its rule, independent of its words."""
    rule = self._rule()
    if self.earlier:
      rule['earlier'] = [look.rule for look in self.earlier]
    return _hash(rule)

  @property
  def rule_hashes(self) -> set[str]:
    """Hashes that units may record: of this rule, with and without what was
    judged earlier, and of the earlier rules.
    """
    earlier = {look.rule for look in self.earlier}
    return {self.rule_hash, _hash(self._rule()), *earlier}

  def _rule(self) -> dict[str, Any]:
    return {
      'miniature': self.miniature,
      'seeds': self.seeds,
      'claims': [claim.rule() for claim in self.claims],
    }


def _hash(rule: Any) -> str:
  """First digits of the SHA-256 of JSON values."""
  text = json.dumps(rule, sort_keys=True, separators=(',', ':'))
  return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def beside(results: str | pathlib.Path) -> pathlib.Path | None:
  """The findings.json that results are judged by, or None.

  Args:
    results: folder FOLDER/results/NAME of a miniature's results, which is
      judged by FOLDER/findings.json.
  """
  folder = pathlib.Path(results).absolute().parent
  path = folder.parent / 'findings.json'
  return path if folder.name == 'results' and path.is_file() else None


def rule_hashes(results: str | pathlib.Path) -> dict[str, str]:
  """Finding -> hash of its rule, of the findings of a miniature's results.

  Among them is the hash of the file's registration, if it has one.
  """
  path = beside(results)
  if path is None:
    return {}
  hashes = {
    finding.name: finding.rule_hash
    for finding in load(path)
    if finding.miniature == pathlib.Path(results).name
  }
  if registered := registration_hash(path.parent):
    hashes[REGISTRATION] = registered
  return hashes


def registration_hash(folder: str | pathlib.Path) -> str:
  """First digits of the SHA-256 of a registration; '' without one.

  It covers all that FOLDER/findings.json says under "registration", its status
  too, and all flags of FOLDER. Comments of flagfiles may change.
  """
  place = pathlib.Path(folder)
  body = files.read_record(place / 'findings.json', {}, {REGISTRATION: dict})
  if REGISTRATION not in body:
    return ''
  flags = {
    str(path.relative_to(place)): re.findall(r'^--.*$', path.read_text(), re.M)
    for path in sorted(place.rglob('*.flags'))
  }
  return _hash([body[REGISTRATION], flags])


def load(path: str | pathlib.Path) -> list[Finding]:
  """The findings in a file; InputError names the bad value."""
  listed = files.read_record(path, {'findings': list})['findings']
  findings = [
    parse(record, f'{path}: finding {n}') for n, record in enumerate(listed)
  ]
  names = [finding.name for finding in findings]
  if twice := [name for name in names if names.count(name) > 1]:
    raise core.InputError(f'{path}: two findings are called {twice[0]!r}')
  return findings


def parse(record: Any, where: str) -> Finding:
  """The finding of a JSON object; InputError begins with `where`."""
  needed = {
    **dict.fromkeys((*_WORDS, 'miniature', 'date'), str),
    'claims': list,
  }
  optional = {'seeds': int, 'picture': dict, 'earlier': list}
  check(record, where, needed, optional)
  try:
    datetime.date.fromisoformat(record['date'])
  except ValueError:
    raise core.InputError(
      f'{where}: date is {record["date"]!r:.60}; expected a day as 2026-01-31'
    ) from None
  if (seeds := record.get('seeds', FEWEST_SEEDS)) < FEWEST_SEEDS:
    raise core.InputError(
      f'{where}: seeds is {seeds}; expected {FEWEST_SEEDS} or more, as one '
      'seed decides nothing'
    )
  claims = [
    _claim(claim, f'{where}, claim {n}')
    for n, claim in enumerate(record['claims'])
  ]
  if not claims:
    raise core.InputError(f'{where} has no claims')
  looks = []
  for n, verdict in enumerate(record.get('earlier', [])):
    fields = dict.fromkeys(EarlierVerdict._fields, str)
    check(verdict, f'{where}, earlier {n}', fields, {})
    looks.append(EarlierVerdict(**verdict))
  parts = {'claims': tuple(claims), 'earlier': tuple(looks)}
  return Finding(**{**record, **parts})


def _claim(record: Any, where: str) -> Claim:
  check(
    record,
    where,
    {'metric': str, 'quantity': str, 'rows': _NAMES, 'relation': str},
    {
      **{'where': dict, 'than': list | dict | int | float, 'times': _NUMBER},
      **{'margin': _NUMBER, 'published': dict, 'variance': str},
    },
  )
  relation, than = record['relation'], record.get('than', [])
  rows = tuple(record['rows'])
  inputs.check_known(relation, RELATIONS, f'{where}: no relation {relation!r}')
  if not rows or (relation == 'ordered' and (len(rows) < 2 or than != [])):
    raise core.InputError(f'{where}: expected two rows or more and no `than`')
  if relation != 'ordered' and than == []:
    raise core.InputError(
      f'{where}: expected rows, a number or a quantity as `than`'
    )
  for row, value in record.get('published', {}).items():
    if not isinstance(value, _NUMBER):
      raise core.InputError(
        f'{where}: published {row!r} is {value!r:.40}; expected a number'
      )
  variance = record.get('variance', VARIANCES[0])
  inputs.check_known(variance, VARIANCES, f'{where}: no variance {variance!r}')
  margin = float(record.get('margin', 0))
  if margin < 0:
    raise core.InputError(f'{where}: margin is {margin:g}; expected 0 or more')
  compared: tuple[str, ...] | float | Quantity
  if isinstance(than, dict):
    compared = quantity(than, f'{where}: than')
  elif isinstance(than, list):
    compared = tuple(schema.check(than, _NAMES, where, 'than'))
  else:
    compared = float(than)
  return Claim(
    _quantity(record, where),
    rows,
    relation,
    compared,
    float(record.get('times', 1)),
    margin,
    variance,
    record.get('published', {}),
  )


_QUANTITY: tuple[dict[str, Any], dict[str, Any]] = (
  {'metric': str, 'quantity': str},
  {'where': dict},
)


def quantity(record: Mapping[str, Any], where: str) -> Quantity:
  """The quantity of a JSON object; InputError begins with `where`."""
  check(record, where, *_QUANTITY)
  return _quantity(record, where)


def _quantity(record: Mapping[str, Any], where: str) -> Quantity:
  if record['metric'] != MAP:
    with_name = registry.parse(record['metric'])[0]
    registry.find('metric', with_name)
  elif record.get('where'):
    raise core.InputError(f'{where}: the map has no breakdown `where`')
  return Quantity(record['metric'], record['quantity'], record.get('where', {}))


def check(
  record: Any, where: str, needed: dict[str, Any], optional: dict[str, Any]
) -> None:
  """Raises InputError for missing or unknown fields, or a wrong type."""
  schema.check(record, schema.Object(needed, optional, closed=True), where)
