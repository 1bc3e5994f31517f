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


def test_plain_text_is_one_line_whatever_it_holds():
  for text in ('detour(p=0.5) [map], n=3', 'a [b, c], position 3', ''):
    assert tables.pieces(text) == (text,)


def test_code_calls_no_predictor_coherent(root):
  for path in (root / 'wm').rglob('*'):
    if path.suffix in ('.py', '.html', '.md', '.js', '.j2', '.toml'):
      text = path.read_text(encoding='utf-8')
      # Errors have a coherence, which a metric measures.
      assert not re.search('coherent', text, re.I), path
