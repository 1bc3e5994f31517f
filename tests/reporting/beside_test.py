"""The papers' values stand beside ours where all settings are the paper's."""

import pytest

from wm.reporting import collect, paper_comparison, tables


def entry(metric: str, quantity: str, value: float = 0.5, **more) -> dict:
  return {
    **{'metric': metric, 'quantity': quantity, 'spec': f'{metric}()'},
    **{'world': 'maps()', 'model': 'oracle', 'n': 9, 'value': value},
    **{'low': 0.0, 'high': 1.0, 'unmeasured': {}, 'seed': 0, **more},
  }


def made(tmp_path, *entries, **training) -> list[tables.Table]:
  run = collect.Run(tmp_path, list(entries), [], [], None, training)
  return paper_comparison.value_tables([run])


def lines(table: tables.Table) -> dict[tuple[str, str], tuple[str, ...]]:
  """(measure, model) -> our value, the paper's, and what the paper has."""
  assert [*table.frame][:2] == ['measure', 'model']
  return {row[:2]: row[2:5] for row in table.rows}


def values(table: tables.Table) -> dict[tuple[str, str], float]:
  """(measure, model) -> our value, where there is one."""
  return {
    key: float(row[0].split()[0])
    for key, row in lines(table).items()
    if row[0].startswith(('0', '1'))
  }


# A run's settings, as the paper has them.
SEATING = {'world': 'seating()', 'model': 'llama_3_70b'}
PUZZLES = "compression(k=1, samples=5, suffixes='world', trials=100)"
OTHELLO = {
  'world': "othello(pool=1000, records='games', states='recurring')",
  'model': 'championship',
  'model_spec': 'transformer(layers=8, width=512)',
}


def test_a_run_of_the_papers_settings_lacks_none(tmp_path):
  (table,) = made(
    tmp_path, entry('compression', 'precision', spec=PUZZLES, **SEATING)
  )
  label = "compression(suffixes='world'): precision"
  expected = '0.500 [0.000, 1.000]', '0.25 ± 0.04', ''
  assert lines(table) == {(label, 'llama_3_70b'): expected}
  assert ".35 in the paper's own appendix" in table.note


@pytest.mark.parametrize(
  ('changed', 'differs'),
  [
    ({'world': 'seating(people=4)'}, 'people=3'),
    ({'spec': PUZZLES.replace('100', '99')}, 'compression trials=100'),
    ({'spec': PUZZLES.replace('k=1', 'k=2')}, 'compression k=1'),
    (
      {'spec': PUZZLES.replace(')', ", accept='top_k(4)')")},
      "compression accept='epsilon(0.01)'",
    ),
    (
      {
        'world': 'seating(people=4)',
        'spec': PUZZLES.replace('samples=5', 'samples=9'),
      },
      'people=3, compression samples=5',
    ),
  ],
)
def test_any_other_setting_is_beside_the_value(tmp_path, changed, differs):
  inputs = {'spec': PUZZLES, **SEATING, **changed}
  (table,) = made(tmp_path, entry('compression', 'precision', **inputs))
  (row,) = lines(table).values()
  assert row[1:] == ('0.25 ± 0.04', differs)


@pytest.mark.parametrize(
  ('changed', 'differs'),
  [
    ({}, ''),
    ({'model_spec': 'transformer(layers=4, width=128)'}, '8 x 512'),
    ({'model_spec': 'lstm(layers=8, width=512)'}, "family='transformer'"),
    ({'model_spec': None}, "8 x 512, family='transformer'"),
    ({'world': "othello(records='games')"}, "states='recurring', pool=1000"),
    ({'world': "othello(pool=1000, states='recurring')"}, 'records'),
  ],
)
def test_a_published_model_has_its_size_and_data(tmp_path, changed, differs):
  inputs = {**OTHELLO, **changed}
  third, fourth = made(
    tmp_path,
    entry('compression', 'precision_published', **inputs),
    entry('detour', 'valid_0.01', **inputs),
  )
  detour = lines(fourth)['detour: valid_0.01', 'championship']
  assert detour[:2] == ('0.500 [0.000, 1.000]', '0.66 ± 0.05')
  assert differs or not detour[2]
  label = 'compression: precision_published', 'championship'
  assert lines(third)[label][1:] == ('0.00 ± 0.00', differs)


def test_rows_that_compare_and_rows_that_do_not(tmp_path):
  """Of several settings the plainest is shown; another model is left out."""
  table, *_ = made(
    tmp_path,
    entry('next_token', 'validity', 0.125, model='untrained'),
    entry('compression', 'precision_published', 0.25, model='oracle'),
    entry(
      'compression',
      'precision_published',
      0.75,
      model='oracle',
      spec='compression(k=1)',
    ),
    entry('compression', 'precision_published', model='another'),
  )
  assert table.title == 'Beside the paper: table 1'
  first = 'next_token: validity', 'untrained'
  second = 'compression: precision_published', 'oracle'
  assert values(table) == {first: 0.125, second: 0.25}
  rows, more = lines(table), "Manhattan, 12 x 768, family='transformer'"
  assert rows[first][1:] == ('0.03 ± 0.00', more)
  assert rows[second][1:] == ('1.00', 'Manhattan')
  unmeasured = rows['next_token: validity', 'oracle']
  assert unmeasured == ('–', '1.00', 'not measured here')
  assert 'n = 100, inferred' in table.note


def test_a_variant_is_matched_by_its_fields(tmp_path):
  third, fourth = made(
    tmp_path,
    *(
      entry(
        'distinction',
        'recall_definition',
        value,
        **{'model': 'oracle', 'world': 'othello()', 'spec': spec},
      )
      for value, spec in (
        (0.25, 'distinction()'),
        (0.75, "distinction(boundary='sampled')"),
        (0.5, "distinction(samples=0, boundary='sampled')"),
      )
    ),
    *(
      entry('detour', 'valid_0.1', value, **{**OTHELLO, 'spec': spec})
      for value, spec in (
        (0.25, 'detour(num=100)'),
        (0.75, "detour(kind='adversarial')"),
        (0.5, "detour(kind='second')"),
      )
    ),
  )
  key = "distinction(boundary='sampled'): recall_definition", 'oracle'
  assert values(third) == {key: 0.75}
  assert lines(third)[key][1:] == ('1.00', '')
  plain = 'detour: valid_0.1', 'championship'
  adversarial = "detour(kind='adversarial'): valid_0.1", 'championship'
  assert values(fourth) == {plain: 0.25, adversarial: 0.75}
  assert lines(fourth)[plain][1] == '0.05 ± 0.02'
  assert lines(fourth)[adversarial][1] == '0.01 ± 0.01'


def test_without_the_variant_nothing_is_shown(tmp_path):
  row = entry('distinction', 'recall_definition', world='othello()')
  assert made(tmp_path, row) == []


def test_worlds_have_tables_of_their_own(tmp_path):
  results = made(
    tmp_path,
    entry('next_token', 'validity', world='lattice()'),
    entry('compression', 'precision_published', world='othello(size=6)'),
    entry('compression', 'precision_published'),
    entry('compression', 'precision', spec=PUZZLES, **SEATING),
  )
  assert [table.title for table in results] == [
    'Beside the paper: othello: table 3',
    'Beside the paper: maps: table 1',
    'Beside the paper: seating',
  ]


HUMAN = "exactness(data='games', num=10000)"
OTHER = "exactness(num=10000, world='chess(length=9)')"
PAPER = {'steps': 310_944, 'batch': 128}


def of_chess(quantity, value, spec='exactness(num=10000)', **more):
  model = 'slice(layers=1, width=128)'
  more = {'world': 'chess(length=704)', 'model': 'slice_d128', **more}
  return entry(
    'exactness', quantity, value, spec=spec, **{'model_spec': model, **more}
  )


def test_chess_is_told_apart_by_games_and_printed_as_there(tmp_path):
  style = 'transformer(layers=1, width=128)'
  (table,) = made(
    tmp_path,
    *(
      of_chess(quantity, value, spec)
      for spec, exact, loss in (
        ('exactness(num=10000)', 0.05, 0.25),
        (HUMAN, 0.5, 2.5e-5),
        (OTHER, 0.75, 1),
        ("exactness(num=10000, data='games', bins=1)", 0.75, 1),
      )
      for quantity, value in (('exact', exact), ('loss', loss))
    ),
    of_chess(
      *('trajectory', 0.0001, HUMAN),
      **{'model': 'Transformer-d128,human', 'model_spec': style},
    ),
    of_chess('exact', 0.125, model='slice_d128,uniform'),
    of_chess(
      *('exact', None),
      **{'model': 'mamba3_d128', 'model_spec': 'mamba3(layers=1, width=128)'},
    ),
    **PAPER,
  )
  net, style = 'slice_d128', 'Transformer-d128,human'
  assert {key: row[1:] for key, row in lines(table).items()} == {
    ('exactness: exact', net): ('0.0414', ''),
    ('exactness: exact', 'mamba3_d128'): ('0.0566', ''),
    ('exactness: loss', net): ('0.322331', ''),
    ('exactness(data=...): exact', net): ('0.4120', ''),
    ('exactness(data=...): loss', net): ('0.055239', ''),
    ('exactness(data=...): trajectory', style): ('0.0002', ''),
  }
  assert values(table)['exactness: loss', net] == 0.25
  assert 'seed)' in table.note


def test_a_short_training_is_not_the_papers(tmp_path):
  spec = 'slice(layers=1, width=128, block_size=1)'
  result = of_chess('exact', 0.5, 'exactness(num=500)', model_spec=spec)
  (table,) = made(tmp_path, result, steps=1000, batch=128)
  assert table.rows[0][3:5] == (
    *('0.0414', 'exactness num=10000, block_size=8, steps=310944'),
  )


def test_an_imported_checkpoint_does_not_say_how_it_was_trained(tmp_path):
  result = of_chess('exact', 0.5)
  (table,) = made(tmp_path, result, imported_sha256='0', model='slice()')
  assert table.rows[0][3:5] == ('0.0414', '')


def test_a_model_in_a_file_that_is_gone_is_another(tmp_path):
  result = of_chess('exact', 0.5, model_spec='gone.py:Model(layers=1)')
  (table,) = made(tmp_path, result, **PAPER)
  assert table.rows[0][4].startswith('1 x 128')


def test_seeds_stand_beside_the_paper_with_their_range(tmp_path):
  several = {'low': 0.25, 'high': 0.75, 'seeds': (2, 2)}
  (table,) = made(tmp_path, of_chess('exact', 0.5, **several), **PAPER)
  ours = '0.500 [0.250, 0.750], 2 seeds'
  assert table.rows[0][2:5] == (ours, '0.0414', '')


def test_without_games_of_people_only_the_uniform_ones_are_compared(tmp_path):
  assert made(tmp_path, of_chess('exact', 0.5, OTHER)) == []


def test_bins_that_are_printed_stand_beside_ours(tmp_path):
  model = {'model': 'slice_d512', 'model_spec': 'slice(layers=6, width=512)'}

  def bins(spec, values, model=model):
    return [
      of_chess('exact', value, spec, **model, where={'step': 20 * n})
      for n, value in enumerate(values)
    ]

  shares = [1 - n / 64 for n in range(9)]
  item = collect.Run(
    *(tmp_path, [of_chess('exact', 0.5, **model)]),
    [*bins('exactness(num=10000)', shares), *bins(HUMAN, [0.1] * 2)],
    *([], None, PAPER),
  )
  more = dict(model, model='Mamba3-d512', model_spec='mamba3()')
  rest = bins('exactness(num=10000)', [0.5] * 10, more)
  two = collect.Run(tmp_path, [], rest, [], None)
  whole, table = paper_comparison.value_tables([item, two])
  assert values(whole) == {('exactness: exact', 'slice_d512'): 0.5}
  assert table.folded
  assert table.title == (
    'Beside the paper: table 11: exact by tokens of the sequence so far'
  )
  printed = {place for place, _ in lines(table)}
  assert printed == {*map(str, (0, 80, 160, 240, 320, 400, 500))}
  differs = '6 x 512, steps=310944, batch=128'
  result = lines(table)
  assert result['0', 'slice_d512'][1:] == ('0.9998', '')
  assert result['0', 'Mamba3-d512'][1:] == ('1.0000', differs)
  assert result['80', 'slice_d512'][1:] == ('0.8650', '')
  unmeasured = '–', '0.0000', 'not measured here'
  assert result['500', 'slice_d512'] == unmeasured
  assert table.heads[5:] == ('paper: transformer_d512', 'paper: deltanet_d512')
  assert table.rows[-1][5:] == ('0.0000', '0.0000')
