"""Positions between untrained and Bayes: order, known numbers, marks, words."""

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


def test_rows_go_from_who_knows_nothing_to_who_knows_the_rules():
  assert [*cells(page_of(**FULL))] == [
    *('before', 'uniform', 'net', 'bayes', 'bayes_replanning', 'oracle')
  ]
  other = run('other', NET, 0.5, trained=True, world='othello()')
  names = [first.name for first in ceilings.ordered([*page_of(**FULL), other])]
  assert names[-1] == 'other', 'kinds of worlds stay together'


def test_positions_with_known_numbers():
  shown = cells(page_of(**FULL))
  # (.3 - .1) / (.9 - .1), and without replanning (.3 - .1) / (.5 - .1).
  assert shown['net'] == '0.300 [0.290, 0.310], n=500, position 0.25'
  runs = page_of(**{k: x for k, x in FULL.items() if k != 'bayes_replanning'})
  assert cells(runs)['net'].endswith(', position 0.50')
  assert 'position' not in ' '.join(
    text for name, text in shown.items() if name != 'net'
  )
  note = tables.main_table(*with_results(page_of(**FULL))).note
  assert '1 is Bayes, replanning, of the sampler' in note
  assert (
    '1 is Bayes, of the sampler'
    in tables.main_table(runs, tables.results(runs)).note
  )


def test_a_ceiling_that_is_not_measured_gives_way_to_the_other():
  runs = page_of(**{**FULL, 'bayes_replanning': None})
  assert cells(runs)['net'].endswith(', position 0.50')


@pytest.mark.parametrize(
  ('values', 'end'),
  [
    ({'net': 0.95}, 'position 1.06, beyond Bayes, replanning'),
    ({'net': 0.915}, 'position 1.02'),  # Intervals overlap.
    ({'before': 0.895}, 'n=500'),  # Untrained is as good as the ceiling.
    ({'before': 1.0}, 'n=500'),  # Untrained is better.
    ({'before': 1.0, 'net': 0.95}, 'n=500, beyond Bayes, replanning'),
    ({'before': None}, 'n=500'),
  ],
)
def test_what_is_beyond_the_ceiling_is_marked(values, end):
  runs = page_of(**{**FULL, **values})
  assert cells(runs)['net'].endswith(end)
  output = 'the metric rewards something else there'
  marked = 'beyond' in ' '.join(cells(runs).values())
  assert (
    output in tables.main_table(runs, tables.results(runs)).note
  ) == marked


def test_a_uniform_guesser_beyond_the_ceiling_is_marked():
  shown = cells(page_of(**{**FULL, 'uniform': 1.0}))
  assert shown['uniform'].endswith('n=500, beyond Bayes, replanning')


@pytest.mark.parametrize(('value', 'beyond'), [(0.3, False), (-0.2, True)])
def test_of_losses_less_is_better(value, beyond):
  loss = {'metric': 'excess_loss', 'quantity': 'excess_loss'}
  ends = [entry(x, **loss) for x in (value, 1.0, 0.0)]
  at = ceilings.position(*ends, better=-1)
  assert at == (pytest.approx(1 - value), ceilings.BAYES, beyond)
  assert ceilings.position(*ends, better=1) is None or value > 0.1


def test_untrained_of_the_same_world_is_taken_before_another():
  far = run('untrained', NET, 0.2, world='maps()')
  runs = [far, *page_of(**FULL)]
  assert cells(runs)['net'].endswith('position 0.25')
  runs = [far, *page_of(**{k: x for k, x in FULL.items() if k != 'before'})]
  assert cells(runs)['net'].endswith('position 0.14')  # .1 / .7
  lattice = [run('untrained', NET, 0.2, world='lattice()'), *runs[1:]]
  assert 'position' not in cells(lattice)['net']


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
    *('0.950', '[0.940, 0.960]', 'n=500', 'position 1.06'),
    'beyond Bayes, replanning',
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


def test_quantities_whose_n_is_too_small_are_named():
  def note(first, second, half):
    runs = [
      run(name, NET, value, trained=True)
      for name, value in (('one', first), ('two', second))
    ]
    for item in runs:
      value = item.entries[0]['value']
      item.entries[0] |= {'low': value - half, 'high': value + half}
    return tables.main_table(runs, tables.results(runs)).note

  # An interval of +-.1 is an error of .051: .2 apart would show.
  assert 'compression: precision (0.1 apart, 0.2 would show)' in note(
    0.4, 0.5, 0.1
  )
  assert 'too small' not in note(0.4, 0.7, 0.1)
  assert 'too small' not in note(0.4, 0.5, 0.01)


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
