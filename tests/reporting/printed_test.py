"""What a paper prints in one table or figure is shown whole beside ours."""

import json

from tests.reporting.beside_test import OTHELLO, cells, entry, made
from wm.reporting import papers


def test_what_a_paper_prints_in_one_table_is_shown_whole(tmp_path):
  """Models that were not run, and what was not measured of one that was."""
  first, eighth = made(
    tmp_path,
    entry('compression', 'precision_published', 0.25, model='random_walks'),
    entry('compression', 'precision_published', 0.125, model='shortest_paths'),
    entry(
      *('compression', 'precision_published', 0.75),
      **{'model': 'shortest_paths', 'spec': 'compression(samples=10)'},
    ),
  )
  assert first.title == 'Beside the paper: table 1'
  assert first.heads == (
    '',
    *('next_token: validity', 'probe: accuracy'),
    'compression: precision_published',
    *('distinction: precision_published', 'distinction: recall_definition'),
  )
  results = {row[0].split(' (')[0]: row[1:] for row in first.rows}
  assert list(results) == [
    *('random_walks', 'paper: random_walks'),
    *('shortest_paths', 'paper: shortest_paths'),
    *('paper: untrained', 'paper: noisy_shortest_paths', 'paper: oracle'),
  ]
  assert results['random_walks'] == ('', '', '0.250', '', '')
  assert results['paper: untrained'] == (
    *('0.03 ± 0.00', '0.10 ± 0.00', '0.00 ± 0.00', '0.00 ± 0.00'),
    '0.00 ± 0.00',
  )
  assert results['paper: random_walks'][1] == '0.99 ± 0.00'
  assert results['paper: oracle'][1] == ''  # The paper probes no true world.
  assert first.rows[-1][0] == 'paper: oracle (not run here)'
  assert eighth.title == 'Beside the paper: table 8'
  label = 'compression(samples=10): precision_published'
  row = cells(eighth)[label]
  assert eighth.heads[:2] == ('', 'shortest_paths')
  assert row == ('0.750', '0.14 ± 0.04')
  assert cells(eighth)['distinction: precision_published'] == (
    '',
    '0.30 ± 0.04',
  )


def test_of_several_worlds_the_papers_is_shown(tmp_path):
  """Compression on recurring positions, whatever else was scored."""
  usual = {**OTHELLO, 'world': "othello(records='games')"}
  for order in (1, -1):
    inputs = [
      entry('compression', 'precision_published', 0.25, **OTHELLO),
      entry('compression', 'precision_published', 0.75, **usual),
    ][::order]
    (third,) = made(tmp_path, *inputs)
    assert third.rows[0] == ('championship', '0.250 (0.00 ± 0.00)', '', '')


def test_the_world_that_draws_states_is_compared(tmp_path):
  spec = 'compression(world="othello(pool=1000, states=\'recurring\')")'
  inputs = {**OTHELLO, 'world': "othello(records='games')"}
  (third,) = made(
    tmp_path,
    entry('compression', 'precision_published', 0.75, **inputs),
    entry('compression', 'precision_published', 0.25, spec=spec, **inputs),
  )
  assert third.rows[0] == ('championship', '0.250 (0.00 ± 0.00)', '', '')
  spec = spec.replace('1000', '9')
  result = entry('compression', 'precision_published', spec=spec, **inputs)
  (third,) = made(tmp_path, result)
  assert third.rows[1][0] == 'paper: championship (pool=1000)'


def test_ablations_are_the_papers(tmp_path):
  """Tables 5 to 7 as the head of their flagfile has them."""
  output = json.loads(
    (papers.folder() / 'vafa2024' / 'published.json').read_text()
  )['files']['ablation_accept.flags']['rows']
  models = 'shortestpaths', 'noisyshortestpaths', 'randomwalks'
  (source,) = papers.papers()['maps']
  rows = [
    row for row in source.rows if row.page in ('table 5', 'table 6', 'table 7')
  ]
  assert output == [
    [rule] + [row.values[model][0] for model in models for row in mine]
    for rule in dict.fromkeys(row.fields['accept'] for row in rows)
    for mine in [[row for row in rows if row.fields['accept'] == rule]]
  ]
  assert {row.quantity for row in rows} == {
    'precision_published',
    'recall_definition',
  }
