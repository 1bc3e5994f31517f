"""What a paper prints in one table or figure is shown whole beside ours."""

import json

from tests.reporting.beside_test import OTHELLO, entry, lines, made, values
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
  paths, walks = 'shortest_paths', 'random_walks'
  label = 'compression: precision_published'
  assert values(first) == {(label, walks): 0.25, (label, paths): 0.125}
  rows = lines(first)
  assert {measure for measure, _ in rows} == {
    *('next_token: validity', 'probe: accuracy', label),
    *('distinction: precision_published', 'distinction: recall_definition'),
  }
  assert {model for _, model in rows} == {paths, walks}
  others = dict(zip(first.heads[5:], first.rows[0][5:], strict=True))
  assert others == {
    'paper: untrained': '0.03 ± 0.00',
    'paper: noisy_shortest_paths': '1.00 ± 0.00',
    'paper: oracle': '1.00',
  }
  assert rows['probe: accuracy', walks] == (
    *('–', '0.99 ± 0.00', 'not measured here'),
  )
  (probe, *_) = (row for row in first.rows if row[0] == 'probe: accuracy')
  assert probe[-1] == ''  # The paper probes no true world.
  assert eighth.title == 'Beside the paper: table 8'
  fields = 'compression(samples=10): precision_published'
  assert values(eighth) == {(fields, paths): 0.75, (label, paths): 0.125}
  assert lines(eighth)[fields, paths][1] == '0.14 ± 0.04'


def test_of_several_worlds_the_papers_is_shown(tmp_path):
  """Compression on recurring positions, whatever else was scored."""
  usual = {**OTHELLO, 'world': "othello(records='games')"}
  for order in (1, -1):
    inputs = [
      entry('compression', 'precision_published', 0.25, **OTHELLO),
      entry('compression', 'precision_published', 0.75, **usual),
    ][::order]
    (third,) = made(tmp_path, *inputs)
    key = 'compression: precision_published', 'championship'
    assert values(third) == {key: 0.25}
    assert lines(third)[key][1:] == ('0.00 ± 0.00', '')


def test_the_world_that_draws_states_is_compared(tmp_path):
  spec = 'compression(world="othello(pool=1000, states=\'recurring\')")'
  inputs = {**OTHELLO, 'world': "othello(records='games')"}
  (third,) = made(
    tmp_path,
    entry('compression', 'precision_published', 0.75, **inputs),
    entry('compression', 'precision_published', 0.25, spec=spec, **inputs),
  )
  key = 'compression: precision_published', 'championship'
  assert values(third) == {key: 0.25}
  assert lines(third)[key][2] == ''
  spec = spec.replace('1000', '9')
  result = entry('compression', 'precision_published', spec=spec, **inputs)
  (third,) = made(tmp_path, result)
  assert lines(third)[key][2] == 'pool=1000'


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
