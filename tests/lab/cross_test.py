"""The cross: its registration, the results that count, its page."""

import dataclasses
import itertools
import json
import pathlib
import re
import subprocess

import numpy as np
import pytest

import wm
from tests.lab.units_made_up import entry, unit
from wm import core
from wm.lab import agreement, cross, cross_page, findings, units
from wm.studies.rows import Row

FOLDER = pathlib.Path('launch/flags/cross')
WORLDS = [f'w{number}' for number in range(6)]
LOSS, SAME, APART, AWAY = (
  *('excess_loss()', 'compression(trials=300)'),
  *('distinction(trials=300)', 'detour(num=300)'),
)
DESIGN = {
  **{'status': 'registered', 'date': '2026-11-26', 'worlds': WORLDS},
  **{'families': ['a', 'b', 'c'], 'sizes': ['s', 'l'], 'data': ['few', 'many']},
  **{'levels': [1, 2], 'seeds': 2, 'control': 'loss', 'criteria': ['away']},
  'metrics': {
    'loss': {'metric': 'excess_loss', 'quantity': 'excess_loss', 'ceiling': 0},
    'same': {
      **{'metric': 'compression', 'quantity': 'precision', 'floor': 0},
      'ceiling': 'bayes',
      'variants': {'again': 'compression(trials=300)'},
    },
    'apart': {
      **{'metric': 'distinction', 'quantity': 'precision', 'also': 'recall'},
      'ceiling': 'bayes',
    },
    'away': {'metric': 'detour', 'quantity': 'valid', 'ceiling': 'bayes'},
  },
  'rules': {'draws': 50},
}


def written(folder: pathlib.Path, **changes) -> pathlib.Path:
  """A folder with a registration and flagfiles, without results."""
  folder.mkdir(exist_ok=True)
  body = {'findings': [], 'registration': {**DESIGN, **changes}}
  (folder / 'findings.json').write_text(json.dumps(body))
  for world in WORLDS:
    for suffix in ('', '_early'):
      rows = f'# A head.\n--world={world}\n--row=bayes: bayes()\n'
      (folder / f'{world}{suffix}.flags').write_text(rows)
  return folder


def measured(loss, same, precision, recall, away) -> list[dict]:
  return [
    entry(loss, spec=LOSS, quantity='excess_loss'),
    entry(same, spec=SAME),
    entry(precision, spec=APART),
    entry(recall, spec=APART, quantity='recall'),
    entry(away, spec=AWAY, quantity='valid'),
  ]


def filled(folder: pathlib.Path, **changes) -> pathlib.Path:
  """The folder with results, in which same and away go together."""
  written(folder, **changes)
  rules = {'registration': findings.registration_hash(folder)}
  draw = np.random.default_rng(0)

  def add(world, row, seed, *values, **more):
    item = unit(row, seed, *measured(*values), rules=rules, **more)
    units.write(folder / 'results' / world, item)

  for world in WORLDS:
    add(world, 'bayes', 0, 0.0, 0.9, 0.8, 0.8, 0.9, trained=False)
    for kind in itertools.product('abc', 'sl'):
      add(world, f'untrained_{"_".join(kind)}', 0, 2.0, 1.0, 0.2, 0.2, 0.1)
    for recipe in itertools.product('abc', 'sl', ('few', 'many')):
      loss, same, apart = draw.uniform(0.2, 0.8, 3)
      for seed, level in itertools.product((0, 1), (1, 2)):
        noise = 0.01 * draw.standard_normal(4)
        values = loss, same, apart, apart, same
        values = np.array(values) * level / 2 + noise[[0, 1, 2, 2, 3]]
        name = '_'.join(recipe) + ('' if level == 2 else '_1')
        add(world + ('' if level == 2 else '_early'), name, seed, *values)
  return folder


def cells_of(folder: pathlib.Path, design: cross.Design) -> cross.CrossCells:
  return cross.cells(cross.read_units(folder, design), design)


@pytest.fixture(scope='module')
def folder(tmp_path_factory) -> pathlib.Path:
  return filled(tmp_path_factory.mktemp('cross') / 'study')


def test_cells_are_scaled_from_untrained_to_bayes(folder):
  cells = cells_of(folder, cross.load(folder))
  assert cells.refused == {}
  assert len(cells.models) == 6 * 12 * 2 * 2 * 4
  row = cells.models[cells.models.metric == 'loss'].iloc[0]
  assert row.value == pytest.approx(1 - row.raw / 2, abs=1e-6)
  row = cells.models[cells.models.metric == 'apart'].iloc[0]
  assert row.value == pytest.approx((row.raw - 0.2) / 0.6, abs=1e-6)


def test_planted_agreement_is_judged_under_the_registration(folder):
  design = cross.load(folder)
  analysis = cross.analyse(cells_of(folder, design).models, design)
  by_pair = {each.metrics: each for each in analysis.criteria['away']}
  assert by_pair['away', 'same'].verdict == agreement.RELATED
  assert by_pair['away', 'same'].mean.low > 0.9
  assert by_pair['away', 'apart'].verdict != agreement.RELATED
  assert [each.metrics for each in analysis.pairs] == [('same', 'apart')]
  same, apart = analysis.added['away']
  assert same.mean.low > 0.5 > apart.mean.high


def test_the_answer_is_in_words_by_rule(folder):
  design = cross.load(folder)
  analysis = cross.analyse(cells_of(folder, design).models, design)
  pairs, criterion, added = cross_page.answer(analysis, design)
  assert pairs.startswith('1 pairs of metrics, given loss: 0 related, ')
  assert criterion.startswith('2 metrics with away, given loss: 1 (away and ')
  assert '1 (away and same 1.00 [0.99, 1.00]) related' in criterion
  assert '0 not tested' in criterion
  assert added.startswith('Beyond loss, same 1.0')
  interim = dataclasses.replace(design, status='interim')
  assert 'interim' in cross_page.answer(analysis, interim)[0]
  few = cells_of(folder, design).models.query('world in ["w0", "w1"]')
  pairs, criterion, added = cross_page.answer(
    cross.analyse(few, design), design
  )
  assert '0 undecided, 1 not tested, as fewer than 5 worlds' in pairs
  assert added.endswith('is not tested yet.')
  assert (
    cross_page.answer(analysis, dataclasses.replace(design, status='draft'))
    == []
  )


def test_a_draft_has_no_verdicts(folder):
  design = cross.load(folder)
  draft = dataclasses.replace(design, status='draft')
  analysis = cross.analyse(cells_of(folder, design).models, design)
  criteria = analysis.criteria['away']
  verdicts = [
    cross_page.agreement_table(criteria, each).frame.verdict.tolist()
    for each in (design, draft)
  ]
  assert 'related' in verdicts[0]
  assert verdicts[1] == ['draft: none'] * 2


def test_results_of_another_registration_are_refused(tmp_path):
  folder = filled(tmp_path / 'x', status='draft', pending=['A pilot.'])
  before = findings.registration_hash(folder)
  flags = folder / 'w0.flags'
  flags.write_text(flags.read_text().replace('A head', 'Another head'))
  assert findings.registration_hash(folder) == before
  flags.write_text(flags.read_text() + '--steps=7\n')
  changed = findings.registration_hash(folder)
  assert changed != before
  written(folder)  # Its status alone.
  assert findings.registration_hash(folder) not in (before, changed)
  cells = cells_of(folder, cross.load(folder))
  assert cells.models.empty
  assert set(cells.refused.values()) == {'of another registration'}
  assert len(cells.refused) == 6 * (12 * 2 * 2 + 7)


def test_results_of_seeds_that_are_not_registered_are_refused(tmp_path):
  folder = written(tmp_path / 'x', first_seed=3)
  rules = {'registration': findings.registration_hash(folder)}
  for seed in (2, 3, 4, 5):
    item = unit('a_s_few', seed, *measured(1, 1, 1, 1, 1), rules=rules)
    units.write(folder / 'results' / 'w0', item)
  cells = cells_of(folder, cross.load(folder))
  assert {*cells.models.seed} == {3, 4}
  assert cells.refused == dict.fromkeys(
    ('w0/a_s_few-2', 'w0/a_s_few-5'), 'of a seed that is not registered'
  )


def test_results_of_another_version_of_a_metric_are_refused(tmp_path):
  folder = written(tmp_path / 'x')
  rules = {'registration': findings.registration_hash(folder)}
  for row, version, num in (('a_s_few', '1', 3), ('a_s_many', '2', 2)):
    for world in WORLDS[:num]:
      scored = unit(row, 0, *measured(1, 1, 1, 1, 1), rules=rules)
      metrics = {SAME: {'name': 'compression', 'version': version}}
      scored = dataclasses.replace(scored, key={'seed': 0, 'metrics': metrics})
      units.write(folder / 'results' / world, scored)
  cells = cells_of(folder, cross.load(folder))
  assert {*cells.models.recipe} == {'a_s_few'}
  assert cells.refused == dict.fromkeys(
    ('w0/a_s_many-0', 'w1/a_s_many-0'),
    'of version 2 of compression, where most have 1',
  )


@pytest.mark.slow
def test_a_page_of_some_of_the_models_is_interim(tmp_path):
  folder = filled(tmp_path / 'x')
  for page, text in (('whole', 'related'), ('part', 'so far related')):
    assert cross_page.write(folder, tmp_path / page)
    html = (tmp_path / page / 'cross.html').read_text()
    assert f'<td>{text}</td>' in html.replace(' data-value=""', '')
    assert ('interim until' in html) == (page == 'part')
    (folder / 'results' / 'w0' / 'a_s_few-0.json').unlink(missing_ok=True)


PREDICTION = {
  **{'date': '2026-11-26', 'question': '?', 'seen': '', 'prediction': ''},
  **{'rule': '', 'metrics': {'same': '', 'apart': ''}},
  'not_seen': [
    {'worlds': WORLDS[:4], 'size': 'l', 'levels': [1, 2], 'seeds': [0, 1]}
  ],
}


@pytest.mark.parametrize(('sign', 'verdict'), [(1, 'shown'), (-1, 'undecided')])
def test_a_prediction_is_tested_on_the_cells_that_were_not_seen(
  tmp_path, folder, sign, verdict
):
  design = cross.load(folder)
  path = tmp_path / 'prediction.json'
  assert cross.load_prediction(tmp_path, design) is None
  path.write_text(json.dumps(PREDICTION))
  prediction = cross.load_prediction(tmp_path, design)
  models = cells_of(folder, design).models.copy()
  # In cells with a higher mean of the second, `same` goes with it more.
  place = models.world.str[1:].astype(int) + 6 * (models.level == 2)
  draw = np.random.default_rng(0)
  apart = draw.uniform(0, 0.05, len(models)) + place / 15
  keys = ['world', 'recipe', 'level', 'seed']
  models['key'] = models[keys].astype(str).agg('-'.join, axis=1)
  known = dict(zip(models.key, apart, strict=True))
  apart = models.key.map(known)
  # The first eleven models of a cell against the last, from -1 to 1.
  rank = models.groupby(['world', 'level', 'metric']).cumcount()
  same = np.where(rank < 2 * place + 1, sign, -sign) * apart
  models['raw'] = np.where(models.metric == 'same', same, apart)
  cells = cross.predicted_cells(models, design, prediction)
  new = cells[cells.new]
  assert len(cells) == 24
  assert len(new) == 8
  assert (new['planned'] == 12).all()
  assert (new.models == 12).all()
  rho, p = agreement.trend(new)
  assert rho * sign > 0.8
  assert (p < 0.05) == (sign > 0)
  line = cross_page.prediction_answer(cells, prediction)
  assert f'{verdict.capitalize()}: Spearman' in line
  # Without the models that test it there is no verdict.
  seen = models[~(models.recipe.str.contains('_l_') & (place % 6 < 4))]
  cells = cross.predicted_cells(seen, design, prediction)
  line = cross_page.prediction_answer(cells, prediction)
  assert 'Not tested yet (0 of 96 models)' in line
  path.write_text(json.dumps(PREDICTION | {'metrics': {'other': ''}}))
  with pytest.raises(core.InputError, match="no metric 'other'"):
    cross.load_prediction(tmp_path, design)


def test_a_draft_without_results_has_a_page(tmp_path):
  folder = written(tmp_path / 'x', status='draft', pending=['A pilot.'])
  assert cross_page.write(folder, tmp_path / 'out')
  page = (tmp_path / 'out' / 'cross.html').read_text()
  assert 'A pilot.' in page
  assert '0 of 288 trained models' in page


def test_cells_without_a_value_say_why(tmp_path):
  folder = written(tmp_path / 'x')
  rules = {'registration': findings.registration_hash(folder)}
  none = entry(None, spec=SAME, unmeasured={'needs_prefixed': 1})
  nought = entry(0.0, spec=APART, quantity='recall')
  item = unit('a_s_few', 0, none, nought, rules=rules)
  units.write(folder / 'results' / 'w0', item)
  models = cells_of(folder, cross.load(folder)).models.set_index('metric')
  assert models.reason['same'] == 'needs_prefixed'
  assert models.reason['loss'] == 'not asked for'
  assert models.raw['apart'] == 0
  assert models.reason['apart'] == 'no untrained value'


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'status': 'done'}, "no status 'done'; available: draft"),
    ({'control': 'lost'}, "no control 'lost'; available: loss, same"),
    ({'criteria': ['gone']}, "no criterion 'gone'; available: loss, same"),
    ({'levels': 3}, 'levels: expected a list, has 3'),
    ({'worlds_': []}, "unknown 'worlds_'"),
    ({'rules': {'margins': 1}}, "unknown 'margins'"),
    ({'metrics': {'loss': {'metric': 'next_tokens', 'quantity': 'x'}}}, 'next'),
  ],
)
def test_bad_registrations_are_refused_by_name(tmp_path, change, message):
  folder = written(tmp_path / 'x', **change)
  with pytest.raises(core.InputError, match=re.escape(message)):
    cross.load(folder)


def test_folders_without_a_registration_have_no_such_page(tmp_path):
  assert cross.load('launch/flags/miniatures') is None
  assert findings.registration_hash('launch/flags/miniatures') == ''


def rows_of(path: pathlib.Path) -> dict[str, Row]:
  lines = re.findall(r'^--row=(.*)$', path.read_text(), re.M)
  return {row.name: row for row in map(Row.parse, lines)}


def test_the_registered_design_is_that_of_the_flagfiles():
  design = cross.load(FOLDER)
  assert design.status == 'registered'
  assert len(design.worlds) * len(design.recipes) * design.seeds == 280
  assert len(design.levels) == 3
  for world in design.worlds:
    rows = {
      suffix: rows_of(FOLDER / f'{world}{suffix}.flags')
      for suffix in ('', '_early')
    }
    settings = {}
    for name, (recipe, level, suffix) in design.rows().items():
      row = rows[suffix].pop(name)
      assert row.model == rows_of(FOLDER / 'lattice.flags')[recipe].model
      settings.setdefault(level, set()).add(row.settings['steps'])
    assert not rows['_early']
    assert {*design.recipes.values(), 'bayes', 'oracle'} <= {*rows['']}
    assert [len(steps) for steps in settings.values()] == [1, 1, 1]
    assert sorted(map(max, settings.values())) == [*map(max, settings.values())]


@pytest.mark.slow
def test_every_committed_result_counts():
  cells = cells_of(FOLDER, cross.load(FOLDER))
  assert cells.refused == {}
  last = cells.models[cells.models.level == 3]
  models = last[['world', 'recipe', 'seed']].drop_duplicates()
  assert len(models) == 280
  # Of the course of training: all models, at all three levels.
  losses = cells.models[cells.models.metric == 'excess_loss']
  levels = losses.dropna(subset='value').groupby(['world', 'recipe', 'seed'])
  whole = levels['level'].nunique() == 3
  assert whole.sum() == 280
  small = whole[whole].reset_index().recipe.str.contains('_small_')
  assert small.sum() == 140


def test_every_registered_measure_is_asked_for():
  design = cross.load(FOLDER)
  asked = [
    spec
    for part in ('metrics', 'adapting')
    for spec in re.findall(
      r'^--metric=(.*)$', (FOLDER / 'parts' / f'{part}.flags').read_text(), re.M
    )
  ]
  every = [
    part for measure in design.metrics.values() for part in measure.parts
  ]
  for of in every:
    scores = [entry(0.5, spec=spec, quantity=of.quantity) for spec in asked]
    assert units.entry_of(unit('a', 0, *scores), of), of


@pytest.mark.process
def test_two_tiny_cells_are_made_and_refused_for_a_draft(tmp_path):
  """Two real units; as their code is not committed, none of them counts."""
  folder = written(tmp_path / 'study', worlds=['w0'])
  world = 'lattice(size=3, length=8)'
  model = 'transformer(layers=1, width=8)'
  failed = wm.miniature(
    [f'a_s_few: {model} on {world} with num=60, steps=2', 'bayes: bayes()'],
    *(world, ['excess_loss(num=10)'], tmp_path / 'out'),
    **{'results': folder / 'results' / 'w0', 'seeds': 1},
    **{'allow_dirty': True, 'baselines': False},
    sampling=wm.Sampling(num_heldout=20),
  )
  assert failed == []
  made = units.read(folder / 'results' / 'w0' / 'a_s_few-0.json')
  assert made.rules == {'registration': findings.registration_hash(folder)}
  cells = cells_of(folder, cross.load(folder))
  assert {*cells.refused} <= {'w0/a_s_few-0', 'w0/bayes-0'}
  assert cross_page.write(folder, tmp_path / 'page')


@pytest.mark.process
def test_the_script_lists_what_is_to_be_made():
  command = 'bash launch/cross.sh lattice --dry_run'
  done = subprocess.run(command.split(), capture_output=True, text=True)
  assert done.returncode == 0, done.stderr[-2000:]
  assert 'lattice/bayes-3: not made' in done.stdout
