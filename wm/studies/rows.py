"""Rows of a study: what is trained and scored, and the settings of each.

A line such as 'walks: MODEL on WORLD with steps=500' comes in; a `Row` goes
out, by `rows_of` with its model and worlds made. `study` runs such rows.

The setting `match` names what a row has as much of as the row `to`:

    sequences   num is the other's number of distinct training sequences
    tokens      num gives as many tokens of training data
    steps       as many optimiser steps
    compute     as many training FLOPs: 6 N D of N parameters and D real
                tokens (Kaplan et al. 2020, arXiv:2001.08361, section 2.1);
                batches are counted as whole ones whatever the curriculum

`resolve_matches` puts numbers in its place: they follow from the data of the
other row, which are sampled first, by the same seed. A row is then trained as
if the numbers had been written down. Where data must not be sampled, numbers
may stay open: the row then keeps its match.

`crossed` puts a row for each place of a grid, and each seed, in the place of
every row that is trained.
"""

from __future__ import annotations

import dataclasses
import graphlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wm import core, options
from wm.core import inputs, registry
from wm.data import exposure, sampling
from wm.library import loading
from wm.options.calls import Matching, Sampling, Stages, Units
from wm.options.training import Training
from wm.runtime import compute
from wm.studies.grid import SEED, Axis, GridRun, runs

# What a row may have to itself.
SETTINGS: dict[str, dataclasses.Field] = {
  **{name: field for name, (field, _) in options.declared(Sampling).items()},
  **{name: field for name, (field, _) in options.declared(Training).items()},
  **{name: field for name, (field, _) in options.declared(Matching).items()},
  'seeds': options.declared(Units)['seeds'][0],
}
for name in ('seed', 'text', 'distributed', 'coordinator', 'threads'):
  del SETTINGS[name]
_ROW = (
  r'\s*(\w+)\s*:\s*(.+?)'
  r'(?:\s+in\s+(.+?)|\s+on\s+(.+?)(?:\s+then\s+on\s+(.+?))?)?'
  r'(?:\s+with\s+(.+?))?\s*'
)


@dataclasses.dataclass(frozen=True)
class Row:
  """A model of a study.

  Attributes:
    name: of its folder and its row in tables; letters, digits, underscores.
    model: spec or object; of a study also a `wm.Run` or path of one, or a text
      with a slash, which was trained before.
    trained_on: world that it is trained on first; None: scored as it is.
    scored_in: world that it is scored in; None is `trained_on`, or else the
      study's.
    settings: fields of Sampling and Training that this row has to itself;
      `match` and `to` (see `Matching`), and `seeds` of a miniature.
    title: what tables call it; '' is its name. Rows of one title that differ in
      their seed of training alone are a line together.
    data: folder of its sampled data in that of the study, which its seeds
      share; '' is its own folder.
  """

  name: str
  model: core.Model | str
  trained_on: core.World | str | None = None
  scored_in: core.World | str | None = None
  settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  title: str = ''
  data: str = ''

  @classmethod
  def parse(cls, text: str) -> Row:
    """'NAME: MODEL', '... in WORLD', '... on WORLD', '... then on WORLD'.

    '... with steps=500, lr=3e-3' may follow, or '... with match="sequences"',
    which takes the number of sequences from another row (see `Matching`).

    Raises:
      InputError: it is not of this form.
    """
    match = re.fullmatch(_ROW, text)
    if not match:
      expected = "expected 'NAME: MODEL' or 'NAME: MODEL on WORLD'"
      raise core.InputError(f'bad row {text!r}: {expected}')
    name, model, used_in, trained_on, after, settings = match.groups()
    _, bare, values = registry.parse(f'row({settings or ""})')
    for key, value in values.items():
      _check_setting(f'row {name!r}', key, value, SETTINGS)
    if bare:
      raise core.InputError(
        f"bad row {text!r}: expected 'with NAME=VALUE, ...'"
      )
    return cls(name, model, trained_on, used_in or after, values)

  def stages(self, stages: Stages) -> Stages:
    """Options of all stages, with this row's settings.

    A seed is of training alone: data, trials and maps are those of all rows.
    """
    others = {name: x for name, x in self.settings.items() if name != SEED}
    replaced = stages.replaced(others)
    seed = self.settings.get(SEED, replaced.training.seed)
    training = dataclasses.replace(replaced.training, seed=seed)
    return dataclasses.replace(replaced, training=training)

  def specs(self, world: core.World | str) -> Row:
    """The row as another process is told it: specs, without settings.

    world: that it is scored in if it names none.
    """
    scored_in = self.scored_in or self.trained_on or world
    trained_on = self.trained_on and spec_of(self.trained_on)
    model, scored_in = spec_of(self.model), spec_of(scored_in)
    return dataclasses.replace(
      self,
      model=model,
      trained_on=trained_on,
      scored_in=scored_in,
      settings={},
    )


def _check_setting(
  where: str, name: str, value: Any, available: Mapping[str, dataclasses.Field]
) -> None:
  """Raises InputError for a setting that rows lack, or a value it cannot have.

  where: what gives it, for the message.
  """
  inputs.check_known(name, available, f'{where} has no setting {name!r}')
  what, field = f'{where}: {name}={value!r}', available[name]
  if not registry.accepts(value, field):
    expected = f'the type of its default {field.default!r}'
    raise core.InputError(f'{what} is not of {expected}')
  if wrong := options.unmet(value, options.details(field)):
    options.refuse(what, wrong)


def spec_of(plug_in: object) -> str:
  """The spec of a plug-in; text, such as a run's folder, stays as it is."""
  return plug_in if isinstance(plug_in, str) else registry.spec(plug_in)


def rows_of(
  rows: Sequence[Row | str], world: core.World | str, runs: bool = False
) -> list[Row]:
  """Rows with objects for specs; raises InputError where one is bad.

  runs: may a model be the folder of a run? It stays text.
  """
  resolved: list[Row] = []
  for entry in rows:
    row = Row.parse(entry) if isinstance(entry, str) else entry
    trained_on = row.trained_on
    if trained_on is not None:
      trained_on = registry.resolve('world', trained_on)
    scored_in = registry.resolve('world', row.scored_in or trained_on or world)
    model = _model(row, runs)
    if trained_on is not None:
      _check_trained(row.name, model, trained_on, scored_in)
    resolved.append(
      dataclasses.replace(
        row, model=model, trained_on=trained_on, scored_in=scored_in
      )
    )
  return _named_apart(resolved)


def _named_apart(rows: list[Row]) -> list[Row]:
  """The rows; raises InputError where two have one name."""
  names = [row.name for row in rows]
  for name in names:
    if names.count(name) > 1:
      raise core.InputError(f'two rows are named {name!r}')
  return rows


def _check_trained(
  name: str,
  model: core.Model | str,
  trained_on: core.World,
  scored_in: core.World,
) -> None:
  """Raises InputError where a row cannot be trained and then scored."""
  if not loading.is_trained(model):
    raise core.InputError(
      f'row {name!r}: there is nothing to train in {registry.spec(model)}; '
      "leave out 'on WORLD'"
    )
  if trained_on.vocab != scored_in.vocab:
    raise core.InputError(
      f'row {name!r}: {registry.spec(scored_in)} has another vocabulary than '
      f'{registry.spec(trained_on)}, on which it is trained'
    )


def _model(row: Row, runs: bool) -> core.Model | str:
  """The row's model, or the folder of a run as it is."""
  text = row.model if isinstance(row.model, str) else ''
  if isinstance(row.model, os.PathLike):
    text = os.path.join(os.curdir, row.model)
  if not re.fullmatch(r'[^()]*/[^()]*', text) or registry.is_file(text):
    return registry.resolve('model', row.model)
  if not runs or row.trained_on is not None:
    raise core.InputError(
      f'row {row.name!r}: {text} is a folder; expected a model, as what was '
      "trained before is a row of a study, and 'on WORLD' trains anew"
    )
  if not os.path.isdir(text):
    raise core.InputError(
      f'row {row.name!r}: there is no run in {text}; train it first'
    )
  return text


# What is matched -> the setting that it decides.
DECIDES = {
  'sequences': 'num',
  'tokens': 'num',
  'steps': 'steps',
  'compute': 'steps',
}
_ROUNDS = 3  # Corrections of a number of sequences by their tokens.
_PILOT = 4096  # Sequences whose tokens the first guess goes by.

# Counts a row's training sequences, of which the number is known; None where
# there are none at hand, and none may be sampled.
Data = Callable[[Row], exposure.Counts | None]


def partners(rows: Sequence[Row]) -> dict[str, str]:
  """Name of each matched row -> the row that it is matched to.

  Raises:
    InputError: a row that cannot be matched as it says, or a circle.
  """
  by_name = {row.name: row for row in rows}
  trained = [row.name for row in rows if row.trained_on is not None]
  matched = [row for row in rows if {'match', 'to'} & row.settings.keys()]
  partner = {}
  for row in matched:
    _check(row)
    other = row.settings.get('to') or _usual_partner(rows)
    available = [name for name in trained if name != row.name]
    if other not in available:
      raise core.InputError(
        f'row {row.name!r} cannot be matched to {other!r}; expected another '
        f'row that is trained here, available: {", ".join(available) or "none"}'
      )
    stepwise = {'steps', 'compute'} & {*row.settings['match'].split('+')}
    if stepwise and not isinstance(by_name[other].model, core.Trainable):
      raise core.InputError(
        f'row {row.name!r}: match={row.settings["match"]!r}, and {other!r} is '
        'not trained by steps'
      )
    partner[row.name] = other
  order = graphlib.TopologicalSorter({x: [y] for x, y in partner.items()})
  try:
    order.prepare()
  except graphlib.CycleError as error:
    circle = ' -> '.join(error.args[1][::-1])
    raise core.InputError(f'rows are matched in a circle: {circle}') from error
  return partner


def _usual_partner(rows: Sequence[Row]) -> str:
  """The first trained row without a match, '' without one."""
  return next(
    (
      row.name
      for row in rows
      if row.trained_on is not None
      and not {'match', 'to'} & row.settings.keys()
    ),
    '',
  )


# What a grid may vary of a row.
VARIED = {
  **{k: x for k, x in SETTINGS.items() if k not in ('match', 'to', 'seeds')},
  SEED: options.declared(Training)[SEED][0],
}


def crossed(rows: Sequence[Row], axes: Sequence[Axis]) -> list[Row]:
  """Trained rows at each place of a grid, the last axis fastest; others as
  they are.

  A place is a suffix of the row's name. A row that is matched to another is
  matched to it at the same place.

  Raises:
    InputError: no row is trained, or has such a setting; a row has seeds.
  """
  for row in rows:
    if 'seeds' in row.settings:
      raise core.InputError(
        f'row {row.name!r}: seeds={row.settings["seeds"]} is of a miniature; '
        'a study has the same seeds of every row'
      )
  if not axes:
    return [*rows]
  for axis in axes:
    for choice in axis.choices:
      value = choice.strong[axis.name]
      _check_setting('the grid of a study', axis.name, value, VARIED)
  trained = {row.name for row in rows if row.trained_on is not None}
  if not trained:
    raise core.InputError(
      "a grid varies rows that are trained; expected one 'on WORLD'"
    )
  usual, places = _usual_partner(rows), runs(axes, {}, {})
  several: list[Row] = []
  for row in rows:
    if row.name in trained:
      several += [_at(row, place, trained, usual) for place in places]
    else:
      several.append(row)
  return _named_apart(several)


def _at(row: Row, place: GridRun, trained: set[str], usual: str) -> Row:
  """A trained row at a place of a grid; see `crossed`."""
  suffix = re.sub(r'\W+', '_', f'_{place.name}')
  settings = {**row.settings, **place.chosen}
  if 'match' in settings:
    to = settings.get('to') or usual
    settings['to'] = to + suffix * (to in trained)
  varied = [f'{k}={x}' for k, x in place.labels.items() if k != SEED]
  return dataclasses.replace(
    row,
    name=row.name + suffix,
    settings=settings,
    title=', '.join([row.title or row.name, *varied]),
    data=re.sub(r'\W+', '_', '_'.join([row.name, *varied])),
  )


def _check(row: Row) -> None:
  """Raises InputError for settings of a match that are bad by themselves."""
  kinds = str(row.settings.get('match', '')).split('+')
  what = f'row {row.name!r}: match={row.settings.get("match", "")!r}'
  for kind in kinds:
    inputs.check_known(kind, DECIDES, f'{what} names {kind!r}')
    setting = DECIDES[kind]
    if [DECIDES[other] for other in kinds].count(setting) > 1:
      raise core.InputError(f'{what} decides {setting} twice')
    if setting in row.settings:
      raise core.InputError(
        f'{what} decides {setting}, and {setting}={row.settings[setting]!r} '
        'was given: expected one of the two'
      )
    if setting == 'num' and row.settings.get('data'):
      raise core.InputError(f'{what} is of sampled data; data= was given')
    if setting == 'steps' and not isinstance(row.model, core.Trainable):
      raise core.InputError(
        f'{what}: {spec_of(row.model)} is not trained by steps'
      )
  if row.trained_on is None:
    raise core.InputError(f"{what}: the row is not trained; add 'on WORLD'")


def decided(row: Row, to: str) -> dict[str, str]:
  """Setting of a matched row -> what it follows from: 'sequences of paths'."""
  kinds = str(row.settings['match']).split('+')
  return {DECIDES[kind]: f'{kind} of {to}' for kind in kinds}


def open_settings(row: Row) -> list[str]:
  """Settings of a row that `resolve_matches` has left open."""
  match = str(row.settings.get('match', ''))
  return [DECIDES[kind] for kind in match.split('+') if kind]


def resolve_matches(
  rows: Sequence[Row],
  stages: Stages,
  data: Data,
  log: Callable[[str], None],
  only: Sequence[str] | None = None,
  *,
  draw: bool = True,
) -> list[Row]:
  """Rows with the numbers that their matches come to, in the same order.

  Args:
    rows: as `rows.rows_of` makes them.
    stages: options of one seed.
    data: called for rows whose data a match depends on, in the order in which
      their numbers are resolved. A row keeps the part of its match for which
      this gives None.
    log: gets the numbers of each match.
    only: names of rows to return, and to sample for; None is all.
    draw: may sequences be drawn to count their tokens? Otherwise such a match
      stays open.

  Raises:
    InputError: see `partners`.
  """
  others = partners(rows)
  by_name = {row.name: row for row in rows}
  final: dict[str, Row] = {}

  def final_row(name: str) -> Row:
    """The row of this name, after those that it depends on."""
    if name not in final:
      row = by_name[name]
      if name in others:
        other = final_row(others[name])
        row = _resolved(row, other, stages, data, draw)
        _log(by_name[name], row, other.name, log)
      final[name] = row
    return final[name]

  names = [row.name for row in rows]
  return [final_row(name) for name in names if only is None or name in only]


def _log(
  row: Row, resolved: Row, other: str, log: Callable[[str], None]
) -> None:
  """Tells the numbers of a match, and which are open."""
  left = open_settings(resolved)
  numbers = [
    f'{setting}={resolved.settings[setting]}'
    for setting in decided(row, other)
    if setting not in left
  ]
  if numbers:
    log(f'{row.name}: matched to {other}: {", ".join(numbers)}')
  if left:
    log(
      f'{row.name}: matched to {other}, whose data are not sampled yet: '
      f'{" and ".join(left)} not known'
    )


def _resolved(
  row: Row,
  other: Row,
  stages: Stages,
  data: Data,
  draw: bool,
) -> Row:
  """A row with numbers in place of its match to a row, as far as it has them.

  draw: see `resolve_matches`.
  """
  settings = {k: x for k, x in row.settings.items() if k not in ('match', 'to')}
  kinds = str(row.settings['match']).split('+')
  left = open_settings(other)

  def counted() -> exposure.Counts | None:
    """Of the other row's data."""
    return None if 'num' in left else data(other)

  def now() -> Row:
    return dataclasses.replace(row, settings=dict(settings))

  if 'sequences' in kinds and (theirs := counted()):
    settings['num'] = theirs.distinct
  if 'tokens' in kinds and draw and (theirs := counted()):
    settings['num'] = _num_of(row, theirs.tokens, stages.sampling.seed)
  steps = None if 'steps' in left else other.stages(stages).training.steps
  if 'steps' in kinds and steps:
    settings['steps'] = steps
  if 'compute' in kinds and steps and (theirs := counted()):
    num_is_open = len(kinds) > 1 and 'num' not in settings
    if mine := None if num_is_open else data(now()):
      flops = [
        step_flops(member, member.stages(stages).training, counts)
        for member, counts in ((other, theirs), (now(), mine))
      ]
      settings['steps'] = max(round(steps * flops[0] / flops[1]), 1)
  still = [kind for kind in kinds if DECIDES[kind] not in settings]
  if still:
    settings |= {'match': '+'.join(still), 'to': other.name}
  return now()


def _num_of(row: Row, tokens: int, seed: int) -> int:
  """Sequences of a row's world that have so many tokens, as nearly as may be.

  By the same draws as its data set is made of. Beyond `sampling.CHUNK`
  sequences, and where a world has fewer, their mean length is extrapolated.
  """
  world = row.trained_on
  assert isinstance(world, core.World)  # By `rows_of`.
  draw = sampling.chunk_seed(seed, 'train', 0)
  num = _PILOT
  for _ in range(_ROUNDS):
    drawn = world.sample(min(num, sampling.CHUNK), draw, 'train').lengths
    num = max(round(tokens * len(drawn) / max(int(drawn.sum()), 1)), 1)
  return num


def step_flops(row: Row, training: Training, counts: exposure.Counts) -> float:
  """Training FLOPs of a step of a row: 6 N D, see the module.

  D are the tokens that a whole batch predicts: all of its sequences' but the
  first of each.
  """
  compute.fix_threads(training.threads)  # Before shapes are computed by JAX.
  from wm.models.nn import network
  from wm.training import loss

  world, model = row.trained_on, row.model
  assert isinstance(world, core.World)  # By `rows_of`.
  assert isinstance(model, core.Trainable)  # By `_check`.
  outputs = loss.make(training, world).outputs
  shape = network.NetworkSpec(model, len(world.vocab), world.max_len, outputs)
  predicted = counts.tokens / counts.sequences - 1
  return 6 * shape.num_params * training.batch * predicted
