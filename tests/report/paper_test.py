"""The papers' values stand beside ours where world, variant and name match."""

import numpy as np
import pytest

from wm import registry
from wm.report import collect, paper, tables


def entry(metric: str, quantity: str, value: float = 0.5, **more) -> dict:
  return {
    **{'metric': metric, 'quantity': quantity, 'spec': f'{metric}()'},
    **{'world': 'maps()', 'model': 'oracle', 'n': 9, 'value': value},
    **{'low': 0.0, 'high': 1.0, 'unmeasured': {}, 'seed': 0, **more},
  }


def beside(tmp_path, *entries) -> list[tables.Table]:
  return tables.paper_tables(
    [collect.Run(tmp_path, list(entries), [], [], None)]
  )


def cells(table: tables.Table) -> dict[str, tuple[str, ...]]:
  return {row[0]: row[1:] for row in table.rows}


@pytest.mark.parametrize('world', paper.PAPERS)
def test_rows_name_what_there_is(world):
  assert world in registry.names('world')
  for row in paper.PAPERS[world].rows:
    known = {f.name for f in _fields(row.metric)}
    assert set(row.fields) <= known
    assert row.values
    most = np.inf if row.quantity == 'loss' else 1
    assert all(0 <= value <= most for value, _ in row.values.values())
    assert all(paper.model_key(name) == name for name in row.values)


def _fields(metric: str):
  return registry.find('metric', metric).__dataclass_fields__.values()


def printed(world: str, metric: str, quantity: str, model: str, **fields):
  """The one value that is printed."""
  found = [
    row.values[paper.model_key(model)][0]
    for row in paper.PAPERS[world].rows
    if (row.metric, row.quantity) == (metric, quantity)
    and all(row.fields.get(k) == v for k, v in fields.items())
  ]
  (value,) = found
  return value


def test_a_name_is_known_with_the_settings_of_a_sweep():
  assert paper.model_key('GPT-4') == 'gpt4'
  named = paper.model_key('slice_d128,lr=1e-2,human')
  assert named == paper.model_key('slice_d128,human')
  assert (
    printed('chess', 'exactness', 'exact', named, data=paper.GIVEN) == 0.412
  )
  assert not [
    row
    for row in paper.PAPERS['chess'].rows
    if paper.model_key('slice_d128,lr=1e-2,uniform') in row.values
  ]


def test_golden_values():
  assert printed('seating', 'capability', 'accuracy', 'Llama-2-70B') == 0.77
  recall = 'distinction', 'recall_definition'
  assert printed('maps', *recall, 'shortest_paths') == 0.20
  assert printed('maps', 'probe', 'accuracy', 'random_walks') == 0.99
  assert printed('othello', *recall, 'championship') == 0.27
  assert printed('othello', *recall, 'untrained') == 0.14
  whole = 'compression', 'precision_published'
  assert printed('othello', *whole, 'synthetic') == 0.98
  records = 'detour', 'valid_0.01', 'championship'
  assert printed('othello', *records, kind='random') == 0.66
  assert printed('othello', *records, kind='adversarial') == 0.70
  random, adversarial = (
    [
      printed('othello', 'detour', f'valid_{p}', 'synthetic', kind=kind)
      for p in ('0', '0.01', '0.1', '0.25', '0.5')
    ]
    for kind in ('random', 'adversarial')
  )
  assert random == [1.00, 0.99, 0.97, 0.97, 0.99]
  assert adversarial == [1.00, 0.98, 0.99, 0.96, 0.97]
  assert printed('seating', 'compression', 'precision', 'Qwen1.5-110B') == 0.53
  assert printed('seating', 'distinction', 'recall', 'gpt_4') == 0.56


def test_maps_show_the_plainest_spec(tmp_path):
  (table,) = beside(
    tmp_path,
    entry('next_token', 'validity', 0.125, model='untrained'),
    entry('compression', 'precision_published', 0.25, model='random_walks'),
    entry(
      'compression',
      'precision_published',
      0.75,
      model='random_walks',
      spec='compression(k=1)',
    ),
    entry('compression', 'precision_published', model='another'),
  )
  assert table.title == 'Beside the paper'
  assert table.heads == ('', 'untrained', 'random_walks')
  assert cells(table) == {
    'next_token: validity': ('0.125 (0.03)', ''),
    'compression: precision_published': ('', '0.250 (0.50 ± 0.02)'),
  }
  assert 'on Manhattan' in table.note


def test_a_variant_is_matched_by_its_fields(tmp_path):
  (table,) = beside(
    tmp_path,
    *(
      entry(
        'distinction', 'recall_definition', value, world='othello()', spec=spec
      )
      for value, spec in (
        (0.25, 'distinction()'),
        (0.75, "distinction(boundary='sampled')"),
        (0.5, "distinction(samples=0, boundary='sampled')"),
      )
    ),
    *(
      entry(
        'detour',
        'valid_0.1',
        value,
        world='othello()',
        model='championship_like',
        spec=spec,
      )
      for value, spec in (
        (0.25, 'detour(num=9)'),
        (0.75, "detour(kind='adversarial')"),
        (0.5, "detour(kind='second')"),
      )
    ),
  )
  assert cells(table) == {
    "distinction(boundary='sampled'): recall_definition": ('0.750 (1.00)', ''),
    'detour: valid_0.1': ('', '0.250 (0.05)'),
    "detour(kind='adversarial'): valid_0.1": ('', '0.750 (0.01)'),
  }


def test_without_the_variant_nothing_is_shown(tmp_path):
  row = entry('distinction', 'recall_definition', world='othello()')
  assert beside(tmp_path, row) == []


def test_worlds_have_tables_of_their_own(tmp_path):
  found = beside(
    tmp_path,
    entry('next_token', 'validity', world='lattice()'),
    entry('compression', 'precision_published', world='othello(size=6)'),
    entry('compression', 'precision_published'),
    entry(
      'compression',
      'precision',
      world='seating()',
      model='llama_3_70b',
      spec="compression(suffixes='world', k=1)",
    ),
  )
  assert [table.title for table in found] == [
    'Beside the paper: othello',
    'Beside the paper: maps',
    'Beside the paper: seating',
  ]
  label = "compression(suffixes='world'): precision"
  assert cells(found[2]) == {label: ('0.500 (0.25)',)}


def chess(quantity: str, model: str, **fields):
  return printed('chess', 'exactness', quantity, model, **fields)


def test_golden_values_of_chess():
  human, uniform = {'data': paper.GIVEN}, {'data': ''}
  assert chess('exact', 'transformer_d128', **human) == 0.2682
  assert chess('trajectory', 'transformer_d128', **human) == 0.0002
  assert chess('loss', 'transformer_d384', **human) == 7.65e-5
  assert chess('labelwise', 'slice_d512', **human) == 1
  assert chess('exact', 'deltanet_d128', **human) == 0.4947
  assert chess('exact', 'deltanet_positive_d512', **uniform) == 0.6117
  assert chess('loss', 'slice_diagonal_d256', **uniform) == 4.43e17
  assert chess('trajectory', 'mamba3_d512', **uniform) == 0.1082
  assert chess('exact', 'mamba2_d128,human', **uniform) == 0.0492
  assert all(len(row.values) == 56 for row in paper.PAPERS['chess'].rows)


HUMAN = "exactness(num=9, data='games')"
OTHER = "exactness(num=9, world='chess(length=9)')"


def of_chess(quantity, value, spec='exactness(num=9)', **more):
  more = {'world': 'chess(length=704)', 'model': 'slice_d128', **more}
  return entry('exactness', quantity, value, spec=spec, **more)


def test_chess_is_told_apart_by_games_and_printed_as_there(tmp_path):
  (table,) = beside(
    tmp_path,
    *(
      of_chess(quantity, value, spec)
      for spec, exact, loss in (
        ('exactness(num=9)', 0.05, 0.25),
        (HUMAN, 0.5, 2.5e-5),
        (OTHER, 0.75, 1),
        ("exactness(num=9, data='games', bins=1)", 0.75, 1),
      )
      for quantity, value in (('exact', exact), ('loss', loss))
    ),
    of_chess('trajectory', 0.0001, HUMAN, model='Transformer-d128,human'),
    of_chess('exact', 0.125, model='slice_d128,uniform'),
    of_chess('exact', None, model='mamba3_d128'),
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


def test_seeds_stand_beside_the_paper_with_their_range(tmp_path):
  several = {'low': 0.25, 'high': 0.75, 'seeds': (2, 2)}
  (table,) = beside(tmp_path, of_chess('exact', 0.5, **several))
  assert cells(table) == {
    'exactness: exact': ('0.5000 (0.0414) [0.2500, 0.7500]',)
  }
  assert '[least, greatest of 2 seeds]' in table.note
  (table,) = beside(
    tmp_path, of_chess('exact', 0.5, **several), of_chess('labelwise', 0.5)
  )
  assert cells(table)['exactness: exact'] == (
    '0.5000 (0.0414) [0.2500, 0.7500], 2 seeds',
  )


def test_without_games_of_people_only_the_uniform_ones_are_compared(tmp_path):
  assert beside(tmp_path, of_chess('exact', 0.5, OTHER)) == []
