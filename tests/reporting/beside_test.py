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


def cells(table: tables.Table) -> dict[str, tuple[str, ...]]:
  return {row[0]: row[1:] for row in table.rows}


# A run's settings, as the paper has them.
SEATING = {'world': 'seating()', 'model': 'llama_3_70b'}
PUZZLES = "compression(k=1, samples=5, suffixes='world', trials=100)"
OTHELLO = {
  'world': "othello(pool=1000, records='games', states='recurring')",
  'model': 'championship',
  'model_spec': 'transformer(layers=8, width=512)',
}


def test_a_run_of_the_papers_settings_has_its_values_in_the_cells(tmp_path):
  (table,) = made(
    tmp_path, entry('compression', 'precision', spec=PUZZLES, **SEATING)
  )
  label = "compression(suffixes='world'): precision"
  assert table.heads == ('', 'llama_3_70b')
  assert cells(table) == {label: ('0.500 (0.25 ± 0.04)',)}
  assert ".35 in the paper's own appendix" in table.note


@pytest.mark.parametrize(
  ('changed', 'head'),
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
def test_any_other_setting_puts_the_paper_in_a_column_of_its_own(
  tmp_path, changed, head
):
  inputs = {'spec': PUZZLES, **SEATING, **changed}
  (table,) = made(tmp_path, entry('compression', 'precision', **inputs))
  assert table.heads == ('', 'llama_3_70b', f'paper: llama_3_70b ({head})')
  (row,) = cells(table).values()
  assert row == ('0.500', '0.25 ± 0.04')


@pytest.mark.parametrize(
  ('changed', 'head'),
  [
    ({}, ''),
    ({'model_spec': 'transformer(layers=4, width=128)'}, '8 x 512'),
    ({'model_spec': 'lstm(layers=8, width=512)'}, "family='transformer'"),
    ({'model_spec': None}, "8 x 512, family='transformer'"),
    ({'world': "othello(records='games')"}, "states='recurring', pool=1000"),
    ({'world': "othello(pool=1000, states='recurring')"}, 'records'),
  ],
)
def test_a_published_model_has_its_size_and_data(tmp_path, changed, head):
  inputs = {**OTHELLO, **changed}
  third, fourth = made(
    tmp_path,
    entry('compression', 'precision_published', **inputs),
    entry('detour', 'valid_0.01', **inputs),
  )
  detour = cells(fourth)['detour: valid_0.01']
  if not head:
    assert fourth.heads[:2] == ('', 'championship')
    assert detour[0] == '0.500 (0.66 ± 0.05)'
  else:
    own = 'paper: championship ' + f'({head})'
    assert cells(third)[own][0] == '0.00 ± 0.00'


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
  assert [row[0] for row in table.rows[:4]] == [
    'untrained',
    "paper: untrained (Manhattan, 12 x 768, family='transformer')",
    *('oracle', 'paper: oracle (Manhattan)'),
  ]
  shown = [(row[1], row[3]) for row in table.rows[:4]]
  assert shown[0] == ('0.125', '')
  assert shown[1] == ('0.03 ± 0.00', '0.00 ± 0.00')
  assert shown[2] == ('', '0.250')
  assert shown[3] == ('1.00', '1.00')
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
  assert third.heads[3] == "distinction(boundary='sampled'): recall_definition"
  assert (third.rows[0][0], third.rows[0][3]) == ('oracle', '0.750 (1.00)')
  assert '0.250 (0.05 ± 0.02)' in cells(fourth)['detour: valid_0.1']
  adversarial = "detour(kind='adversarial'): valid_0.1"
  assert '0.750 (0.01 ± 0.01)' in cells(fourth)[adversarial]


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
  assert table.heads == (
    *('', 'slice_d128', 'Transformer-d128,human', 'mamba3_d128'),
  )
  assert cells(table) == {
    'exactness: exact': ('0.0500 (0.0414)', '', '– (0.0566)'),
    'exactness: loss': ('0.25 (0.322331)', '', ''),
    'exactness(data=...): exact': ('0.5000 (0.4120)', '', ''),
    'exactness(data=...): loss': ('2.5e-05 (0.055239)', '', ''),
    'exactness(data=...): trajectory': ('', '0.0001 (0.0002)', ''),
  }
  assert 'seed)' in table.note
  assert 'least' not in table.note


def test_a_short_training_is_not_the_papers(tmp_path):
  spec = 'slice(layers=1, width=128, block_size=1)'
  result = of_chess('exact', 0.5, 'exactness(num=500)', model_spec=spec)
  (table,) = made(tmp_path, result, steps=1000, batch=128)
  assert table.heads[2] == (
    'paper: slice_d128 (exactness num=10000, block_size=8, steps=310944)'
  )
  assert table.rows[0][1:] == ('0.5000', '0.0414')


def test_an_imported_checkpoint_does_not_say_how_it_was_trained(tmp_path):
  result = of_chess('exact', 0.5)
  (table,) = made(tmp_path, result, imported_sha256='0', model='slice()')
  assert table.rows[0][1:] == ('0.5000 (0.0414)',)


def test_a_model_in_a_file_that_is_gone_is_another(tmp_path):
  result = of_chess('exact', 0.5, model_spec='gone.py:Model(layers=1)')
  (table,) = made(tmp_path, result, **PAPER)
  assert table.heads[2].startswith('paper: slice_d128 (1 x 128')


def test_seeds_stand_beside_the_paper_with_their_range(tmp_path):
  several = {'low': 0.25, 'high': 0.75, 'seeds': (2, 2)}
  (table,) = made(tmp_path, of_chess('exact', 0.5, **several), **PAPER)
  assert cells(table) == {
    'exactness: exact': ('0.5000 (0.0414) [0.2500, 0.7500]',)
  }
  assert '[least, greatest of 2 seeds]' in table.note
  (table,) = made(
    tmp_path,
    of_chess('exact', 0.5, **several),
    of_chess('labelwise', 0.5),
    **PAPER,
  )
  assert cells(table)['exactness: exact'] == (
    '0.5000 (0.0414) [0.2500, 0.7500], 2 seeds',
  )


def test_without_games_of_people_only_the_uniform_ones_are_compared(tmp_path):
  assert made(tmp_path, of_chess('exact', 0.5, OTHER)) == []


def test_bins_stand_beside_those_that_are_printed(tmp_path):
  model = {
    'model': 'slice_d512',
    'model_spec': 'slice(layers=6, width=512)',
  }

  def bins(spec, values, model=model):
    return [
      of_chess('exact', value, spec, **model, where={'step': 20 * n})
      for n, value in enumerate(values)
    ]

  values = [1 - n / 64 for n in range(9)]
  item = collect.Run(
    *(tmp_path, [of_chess('exact', 0.5, **model)]),
    [*bins('exactness(num=10000)', values), *bins(HUMAN, [0.1] * 2)],
    *([], None, PAPER),
  )
  more = dict(model, model='Mamba3-d512', model_spec='mamba3()')
  rest = bins('exactness(num=10000)', [0.5] * 10, more)
  two = collect.Run(tmp_path, [], rest, [], None)
  whole, table = paper_comparison.value_tables([item, two])
  assert list(cells(whole)) == ['exactness: exact']
  assert table.folded
  assert table.title == (
    'Beside the paper: table 11: exact by tokens of the sequence so far'
  )
  steps = [*range(0, 200, 20), 240, 320, 400, 500]
  assert [int(row[0]) for row in table.rows] == steps
  slice_, rest, mamba, printed, *others = table.heads[1:]
  assert (slice_, mamba) == ('slice_d512', 'Mamba3-d512')
  assert rest == 'paper: slice_d512 (not measured here)'
  assert printed == 'paper: Mamba3-d512 (6 x 512, steps=310944, batch=128)'
  assert others == [
    'paper: transformer_d512 (not run here)',
    'paper: deltanet_d512 (not run here)',
  ]
  result = cells(table)
  assert result['0'][:4] == ('1.0000 (0.9998)', '', '0.5000', '1.0000')
  assert result['20'] == ('0.9844', '', '0.5000', *[''] * 3)
  assert result['80'][0] == '0.9375 (0.8650)'
  assert result['500'] == ('', '0.0000', '', '0.0000', '0.0000', '0.0000')
