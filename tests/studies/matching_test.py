"""Matched rows: their numbers, their order, and what they refuse."""

import json
import shutil

import pytest

import wm
from wm import core
from wm.data import exposure
from wm.options.calls import Stages
from wm.studies import rows, study

RULES = 'maps(rows=3, columns=3, max_moves=12%s)'
WALKS, PATHS = RULES % '', RULES % ", traversal='shortest'"
NET = 'transformer(layers=1, width=16)'
GRAMS = 'ngram(order=2)'
FEW = wm.Sampling(num=400, num_heldout=10)
SHORT = wm.Training(steps=2, batch=8, eval_every=1)


def resolved(
  *texts: str, counts=None, only=None, sampling=FEW, draw=True
) -> dict[str, dict]:
  """Settings of rows by name; counts: of each row, made up."""

  def counted(row: rows.Row) -> exposure.Counts:
    assert not {'match', 'to'} & row.settings.keys(), 'data of no number yet'
    asked.append(row.name)
    return counts.get(row.name)

  asked: list[str] = []
  told: list[str] = []
  made = rows.rows_of(texts, WALKS)
  stages = Stages(sampling, SHORT)
  final = rows.resolve_matches(
    made, stages, counted, told.append, only, draw=draw
  )
  return {row.name: dict(row.settings) for row in final} | {
    'asked': asked,
    'told': told,
  }


def test_sequences_are_the_distinct_ones_and_steps_those_of_the_other():
  found = resolved(
    f'walks: {NET} on {WALKS} with match="sequences+steps"',
    f'paths: {NET} on {PATHS} with steps=7',
    counts={'paths': exposure.Counts(30, 20, 99)},
  )
  assert found['walks'] == {'num': 20, 'steps': 7}
  assert found['paths'] == {'steps': 7}


def test_a_chain_is_resolved_from_its_end():
  texts = (
    f'c: {NET} on {WALKS} with match="steps", to="b"',
    f'b: {NET} on {WALKS} with match="steps+sequences", to="a", lr=0.1',
    f'a: {NET} on {PATHS} with steps=5',
  )
  counts = {'a': exposure.Counts(9, 9, 9)}
  found = resolved(*texts, counts=counts)
  assert found['b'] == {'num': 9, 'steps': 5, 'lr': 0.1}
  assert found['c'] == {'steps': 5}
  alone = resolved(*texts, counts={}, only=['a'])
  assert alone == {'a': {'steps': 5}, 'asked': [], 'told': []}


def test_what_follows_from_data_that_are_not_there_stays_open():
  texts = (
    f'walks: {NET} on {WALKS} with match="sequences+steps"',
    f'paths: {NET} on {PATHS} with steps=7',
    f'after: {NET} on {WALKS} with match="sequences", to="walks"',
    f'flops: {NET} on {WALKS} with match="compute", to="paths"',
    f'both: {NET} on {WALKS} with match="tokens+compute", to="paths"',
  )
  shown = resolved(*texts, counts={}, draw=False)
  assert shown['walks'] == {'steps': 7, 'match': 'sequences', 'to': 'paths'}
  assert shown['after'] == {'match': 'sequences', 'to': 'walks'}
  assert shown['flops'] == {'match': 'compute', 'to': 'paths'}
  assert shown['both'] == {'match': 'tokens+compute', 'to': 'paths'}
  assert shown['told'][:2] == [
    'walks: matched to paths: steps=7',
    'walks: matched to paths, whose data are not sampled yet: num not known',
  ]
  assert shown['told'][-1].endswith('yet: num and steps not known')
  # Data that are there are counted; tokens of others are not drawn.
  counts = {'paths': exposure.Counts(30, 20, 99)}
  shown = resolved(*texts[:2], texts[4], counts=counts, draw=False)
  assert shown['walks'] == {'num': 20, 'steps': 7}
  assert shown['both'] == {'match': 'tokens+compute', 'to': 'paths'}


def test_as_many_tokens_are_as_many_to_a_sequence():
  world = rows.rows_of([f'a: {GRAMS} on {WALKS}'], WALKS)[0].trained_on
  assert isinstance(world, core.World)
  for tokens in (50, 3000):
    found = resolved(
      f'paths: {GRAMS} on {PATHS}',
      f'walks: {GRAMS} on {WALKS} with match="tokens"',
      counts={'paths': exposure.Counts(9, 9, tokens)},
    )
    num = found['walks']['num']
    seed = rows.sampling.chunk_seed(0, 'train', 0)
    lengths = world.sample(num, seed, 'train').lengths
    assert abs(int(lengths.sum()) - tokens) <= 2 * world.max_len


def test_compute_is_parameters_by_tokens_by_steps():
  wide = NET.replace('16', '32')
  texts = (
    f'small: {NET} on {WALKS} with steps=100',
    f'large: {wide} on {WALKS} with match="compute", batch=4',
  )
  counts = {
    'small': exposure.Counts(10, 10, 110),
    'large': exposure.Counts(10, 10, 60),
  }
  found = resolved(*texts, counts=counts)
  made = rows.rows_of([text.split(' with')[0] for text in texts], WALKS)
  flops = [
    rows.step_flops(row, wm.Training(batch=batch), counts[row.name])
    for row, batch in zip(made, (8, 4), strict=True)
  ]
  sizes = [
    wm.load_predictor(row.model, WALKS).predictor.spec.num_params
    for row in made
  ]
  assert flops == [6 * sizes[0] * 8 * 10, 6 * sizes[1] * 4 * 5]
  assert found['large']['steps'] == round(100 * flops[0] / flops[1])


@pytest.mark.parametrize(
  ('texts', 'message'),
  [
    (['a: %n on %w with match="step"'], "names 'step'; available: sequences"),
    (['a: %n on %w with match=""'], "names ''; available: sequences"),
    (['a: %n on %w with match=3'], 'match=3 is not of the type of its'),
    (['a: %n on %w with to="b"', 'b: %n on %w'], "match='' names ''"),
    (['a: %n on %w with match="steps"'], "to ''; .* available: none"),
    (['a: %n on %w with match="steps", to="a"'], "matched to 'a'; expected an"),
    (
      ['a: %n on %w with match="steps", to="c"', 'b: %n on %w'],
      "matched to 'c'; .* available: b",
    ),
    (
      ['a: %n on %w with match="steps", to="u"', 'u: uniform()'],
      "matched to 'u'; .* available: none",
    ),
    (['a: %n with match="steps"', 'b: %n on %w'], 'the row is not trained'),
    (
      ['a: %n on %w with match="sequences+tokens"', 'b: %n on %w'],
      'decides num twice',
    ),
    (
      ['a: %n on %w with match="steps", steps=3', 'b: %n on %w'],
      'decides steps, and steps=3 was given',
    ),
    (
      ['a: %n on %w with match="sequences", data="x"', 'b: %n on %w'],
      'is of sampled data; data= was given',
    ),
    (
      ['a: ngram() on %w with match="steps"', 'b: %n on %w'],
      r'ngram\(\) is not trained by steps',
    ),
    (
      ['a: %n on %w with match="steps"', 'b: ngram() on %w'],
      "'b' is not trained by steps",
    ),
    (
      [
        'a: %n on %w with match="steps", to="b"',
        'b: %n on %w with match="steps", to="a"',
      ],
      'rows are matched in a circle: a -> b -> a',
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
  told = f'walks: matched to paths: num={manifests[1]["rows"]}'
  assert lines.count(told) == 2


def test_a_unit_is_known_by_the_numbers_of_its_match(tmp_path):
  given = {
    'sampling': FEW,
    'seeds': 2,
    'baselines': False,
    'num_samples': 20,
    'results': tmp_path / 'results',
  }
  lines: list[str] = []

  def made(*texts: str, **more) -> list[str]:
    lines.clear()
    out = tmp_path / 'out'
    call = {**given, **more, 'log': lines.append}
    return wm.miniature(texts, WALKS, 'next_token(num=20)', out, **call)

  made(*TEXTS, dry_run=True)
  assert not (tmp_path / 'out').exists()
  assert made(*TEXTS, row_names=['walks'], seeds=1) == []
  key = json.loads((tmp_path / 'results' / 'walks-0.json').read_text())['key']
  num = key['sampling']['num']
  assert f'walks: matched to paths: num={num}' in lines
  written = f'walks: {GRAMS} on {WALKS} with num={num}'
  assert made(written, TEXTS[1], row_names=['walks'], seeds=1) == []
  assert lines == [f'{tmp_path}/results: 1 of 1 units cached']
  made(*TEXTS, dry_run=True)
  assert f'{tmp_path}/results: 1 of 4 units cached' in lines


def test_a_dry_run_samples_nothing(tmp_path, monkeypatch):
  results, lines = tmp_path / 'results', list[str]()

  def made(*texts: str, **more) -> list[str]:
    lines.clear()
    options = {'sampling': FEW, 'seeds': 1, 'baselines': False, **more}
    options |= {'num_samples': 20, 'results': results, 'log': lines.append}
    return wm.miniature(
      texts, WALKS, 'next_token(num=20)', tmp_path / 'out', **options
    )

  assert made(*TEXTS, row_names=['walks']) == []
  unit = json.loads((results / 'walks-0.json').read_text())
  assert unit['matched'] == {'num': 'sequences of paths'}
  shutil.rmtree(tmp_path / 'out')

  def sample(self, *arguments):
    raise AssertionError('a dry run samples')

  for row in rows.rows_of(TEXTS, WALKS):
    monkeypatch.setattr(type(row.trained_on), 'sample', sample)
  made(*TEXTS, dry_run=True)
  open_ = 'walks: matched to paths, whose data are not sampled yet: num not '
  assert lines[0] == f'{open_}known'
  assert lines[1].endswith('1 of 2 units cached')
  assert 'of a processor' in lines[2]
  assert lines[3] == 'results/paths-0: not made'
  assert not (tmp_path / 'out').exists()
  # Nothing but the number that is not known is taken on trust.
  made(TEXTS[0].replace('order=2', 'order=3'), TEXTS[1], dry_run=True)
  assert lines[2] == 'results/walks-0: not made'


def test_settings_of_a_match_are_those_of_rows():
  assert {'match', 'to'} <= {*rows.SETTINGS}
  row = study.Row.parse(f'a: {NET} on {WALKS} with match="sequences+steps"')
  assert row.settings == {'match': 'sequences+steps'}
