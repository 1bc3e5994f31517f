"""Matched rows: their numbers, their order, and what they refuse."""

import json
import shutil

import pytest

import wm
from wm import core
from wm.options.calls import Stages
from wm.studies import rows

RULES = 'maps(rows=3, columns=3, max_moves=12%s)'
WALKS, PATHS = RULES % '', RULES % ", traversal='shortest'"
NET = 'transformer(layers=1, width=16)'
GRAMS = 'ngram(order=2)'
FEW = wm.Sampling(num=400, num_heldout=10)
SHORT = wm.Training(steps=2, batch=8, eval_every=1)


@pytest.mark.parametrize('num', [20, None])
def test_sequences_are_the_distinct_ones_and_steps_those_of_the_other(num):
  texts = (
    f'walks: {NET} on {WALKS} with match="sequences+steps"',
    f'paths: {NET} on {PATHS} with steps=7',
    f'long: {NET} on {WALKS} with match="sequences", steps=9',
  )
  lines: list[str] = []
  final = rows.resolve_matches(
    rows.rows_of(texts, WALKS), Stages(FEW, SHORT), lambda _: num, lines.append
  )
  matched = {} if num is None else {'num': num}
  assert [dict(row.settings) for row in final] == [
    {'match': 'sequences+steps', **matched, 'steps': 7},
    {'steps': 7},
    {'match': 'sequences', **matched, 'steps': 9},
  ]
  shown = 'num=20, steps=7' if num else 'steps=7'
  assert lines[0] == f'walks: matched to paths: {shown}'


@pytest.mark.parametrize(
  ('texts', 'message'),
  [
    (['a: %n on %w with match="step"'], "match='step'; available: , sequences"),
    (['a: %n on %w with match=3'], 'match=3 is not of the type of its'),
    (['a: %n on %w with to="b"', 'b: %n on %w'], "has no setting 'to'"),
    (
      ['a: %n on %w with match="steps"'],
      'expected another row that is trained',
    ),
    (['a: %n with match="steps"', 'b: %n on %w'], 'the row is not trained'),
    (
      ['a: %n on %w with match="steps", steps=3', 'b: %n on %w'],
      'decides steps, and steps= or data= was given',
    ),
    (
      ['a: %n on %w with match="sequences", data="x"', 'b: %n on %w'],
      'decides num, and num= or data= was given',
    ),
    (
      ['a: ngram() on %w with match="steps"', 'b: %n on %w'],
      r"'a' is not trained by steps: ngram\(\)",
    ),
    (
      ['a: %n on %w with match="steps"', 'b: ngram() on %w'],
      "'b' is not trained by steps",
    ),
  ],
)
@pytest.mark.parametrize('miniature', [False, True])
def test_bad_matches_are_one_line_before_anything_is_made(
  tmp_path, texts, message, miniature
):
  texts = [text.replace('%n', NET).replace('%w', WALKS) for text in texts]
  call = wm.miniature if miniature else wm.study
  with pytest.raises(core.InputError, match=message) as caught:
    call(texts, WALKS, 'next_token(num=5)', tmp_path / 'new')
  assert '\n' not in str(caught.value)
  assert not (tmp_path / 'new').exists()


TEXTS = [
  f'walks: {GRAMS} on {WALKS} with match="sequences"',
  f'paths: {GRAMS} on {PATHS}',
]


@pytest.mark.process
@pytest.mark.parametrize('jobs', [1, 2])
def test_a_study_trains_matched_rows_on_as_many_sequences(tmp_path, jobs):
  lines: list[str] = []
  for _ in range(2):  # The second time all is there.
    wm.study(
      TEXTS,
      WALKS,
      'next_token(num=20)',
      tmp_path,
      sampling=FEW,
      jobs=jobs,
      baselines=False,
      num_samples=20,
      log=lines.append,
    )
  manifests = [
    json.loads((tmp_path / name / 'data/train/manifest.json').read_text())
    for name in ('walks', 'paths')
  ]
  assert manifests[0]['rows'] == manifests[1]['rows'] < 400
  messages = f'walks: matched to paths: num={manifests[1]["rows"]}'
  assert lines.count(messages) == 2


@pytest.mark.process
def test_a_unit_is_known_by_the_numbers_of_its_match(tmp_path):
  inputs = {
    'sampling': FEW,
    'seeds': 1,
    'baselines': False,
    'num_samples': 20,
    'results': tmp_path / 'results',
  }
  lines: list[str] = []

  def made(*texts: str, **more) -> list[str]:
    lines.clear()
    out = tmp_path / 'out'
    call = {**inputs, **more, 'log': lines.append}
    return wm.miniature(texts, WALKS, 'next_token(num=20)', out, **call)

  made(*TEXTS, dry_run=True)
  assert not (tmp_path / 'out').exists()
  assert made(*TEXTS) == []
  unit = json.loads((tmp_path / 'results' / 'walks-0.json').read_text())
  assert unit['matched'] == {'num': 'sequences of paths'}
  num = unit['key']['sampling']['num']
  assert f'walks: matched to paths: num={num}' in lines
  written = f'walks: {GRAMS} on {WALKS} with num={num}'
  assert made(written, TEXTS[1]) == []
  assert lines == [f'{tmp_path}/results: 2 of 2 units cached']
  made(*TEXTS, dry_run=True, seeds=2)
  assert f'{tmp_path}/results: 2 of 4 units cached' in lines
  # Without data the result of the other row tells the number.
  shutil.rmtree(tmp_path / 'out')
  made(*TEXTS, dry_run=True)
  assert f'{tmp_path}/results: 2 of 2 units cached' in lines
  assert not (tmp_path / 'out').exists()
