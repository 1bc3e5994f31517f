"""Order of rows, ceilings, and what stands beside a value."""

import pathlib
import re

import pytest

from wm.reporting import ceilings, collect, tables


def with_results(runs):
  return runs, tables.results(runs)


WORLD = "maps(traversal='shortest')"
NET = 'transformer(layers=2)'
REPLAN = "bayes(off='replan')"


def entry(value, half=0.01, **more) -> dict:
  known = value is not None
  return {
    **{'metric': 'compression', 'quantity': 'precision', 'world': WORLD},
    **{'spec': 'compression()', 'value': value, 'seed': 0},
    **{'n': 500 if known else 0, 'unmeasured': {} if known else {'empty': 500}},
    **{'low': value - half if known else None},
    **{'high': value + half if known else None, **more},
  }


def run(name, model, value, trained=False, **more) -> collect.Run:
  about = {'model': name, 'model_spec': model, **more}
  about |= {'training': name} if trained else {'checkpoint': 'none'}
  return collect.Run(pathlib.Path(name), [entry(value, **about)], [], [], None)


def page_of(**values) -> list[collect.Run]:
  """Runs in an order that is not the table's."""
  models = {
    'oracle': 'oracle()',
    'bayes_replanning': REPLAN,
    'bayes': 'bayes()',
    'net': NET,
    'uniform': 'uniform()',
    'before': NET,
  }
  return [
    run(name, models[name], values[name], name == 'net')
    for name in models
    if name in values
  ]


FULL = {
  **{'oracle': 1.0, 'bayes_replanning': 0.9, 'bayes': 0.5},
  **{'net': 0.3, 'uniform': 0.05, 'before': 0.1},
}


def cells(runs) -> dict[str, str]:
  return dict(tables.main_table(*with_results(ceilings.ordered(runs))).rows)


def test_a_ceiling_that_is_not_measured_gives_way_to_the_other():
  def name(**values):
    runs = ceilings.ordered(page_of(**{**FULL, **values}))
    place = [run.name for run in runs].index('net')
    ceiling = ceilings.Against(runs).ceiling(place, runs[place].entries[0])
    return ceiling and ceiling[0]

  assert name() == ceilings.REPLANNING
  assert name(bayes_replanning=None) == ceilings.BAYES
  assert name(bayes_replanning=None, bayes=None) is None


def test_rows_go_from_who_knows_nothing_to_who_knows_the_rules():
  assert [*cells(page_of(**FULL))] == [
    *('before', 'uniform', 'net', 'bayes', 'bayes_replanning', 'oracle')
  ]
  other = run('other', NET, 0.5, trained=True, world='othello()')
  names = [first.name for first in ceilings.ordered([*page_of(**FULL), other])]
  assert names[-1] == 'other', 'kinds of worlds stay together'


@pytest.mark.parametrize(
  ('n', 'vacuous', 'text'),
  [
    (16, 484, '16 of 500 measured'),
    (399, 101, '399 of 500 measured'),
    (400, 100, 'n=400, 20 % unmeasured'),
    (499, 1, 'n=499, 1 % unmeasured'),
    (500, 0, 'n=500'),
  ],
)
def test_what_was_not_measured_stands_beside_the_value(n, vacuous, text):
  item = entry(0.5, n=n, unmeasured={'vacuous': vacuous} if vacuous else {})
  assert tables.cell(item) == f'0.500 [0.490, 0.510], {text}'
  few = {**item, 'clusters': 12}
  assert ' in 12 clusters' in tables.cell(few)


def lines_of(runs, name) -> list[str]:
  rows = tables.main_table(*with_results(ceilings.ordered(runs))).rows
  return [piece.lstrip(' ,;') for piece in tables.pieces(dict(rows)[name])]


def test_cells_break_into_lines():
  values = {**FULL, 'net': 0.95}
  assert lines_of(page_of(**values), 'net') == [
    *('0.950', '[0.940, 0.960]', 'n=500'),
  ]
  item = entry(0.3, n=16, unmeasured={'vacuous': 484})
  assert tables.cell(item).lines == (
    *('0.300', '[0.290, 0.310]', '16 of 500 measured'),
  )
  seeds = {'seed_values': [0.2, 0.98, 0.98], 'seeds': (3, 3)}
  seeds |= {'seed_lows': [0.1, 0.9, 0.9], 'seed_highs': [0.3, 1, 1]}
  two = {**entry(0.72), **seeds, 'least': 0, 'most': 1}
  assert tables.cell(two).lines == (
    *('0.720', '[0.200, 0.980, 0.980] in two modes', '3 seeds'),
  )


def test_plain_text_is_one_line_whatever_it_holds():
  for text in ('detour(p=0.5) [map], n=3', 'a [b, c], position 3', ''):
    assert tables.pieces(text) == (text,)


def test_many_quantities_are_rows():
  def runs(num):
    made = page_of(**FULL)
    for item in made:
      name = {'metric': 'unknown.py:M', 'spec': 'unknown.py:M()'}
      first = item.entries[0]
      item.entries[:] = [
        {**first, **name, 'quantity': f'q{k}'} for k in range(num)
      ]
    return ceilings.ordered(made)

  few, many = (
    tables.main_table(runs(8), tables.results(runs(8))),
    tables.main_table(runs(9), tables.results(runs(9))),
  )
  assert (few.heads[0], len(few.heads), len(few.rows)) == ('model', 9, 6)
  assert many.heads == ('quantity', *(item[0] for item in few.rows))
  assert [row[0] for row in many.rows] == [
    f'unknown.py:M: q{k}' for k in range(9)
  ]


def test_a_report_without_ceilings_says_how_to_get_them():
  without = page_of(net=0.3, before=0.1)
  (line,) = ceilings.Against(without).missing()
  assert "wm.score('bayes()', metrics" in line
  assert "launch/score.py --model='bayes()'" in line
  assert not ceilings.Against(page_of(**FULL)).missing()
  chess = [run('net', NET, 0.3, trained=True, world='seating()')]
  (line,) = ceilings.Against(chess).missing()
  assert line.startswith('No ceiling')


def test_code_calls_no_predictor_coherent(root):
  for path in (root / 'wm').rglob('*'):
    if path.suffix in ('.py', '.html', '.md', '.js', '.j2', '.toml'):
      text = path.read_text(encoding='utf-8')
      # Errors have a coherence, which a metric measures.
      assert not re.search('coherent', text, re.I), path
