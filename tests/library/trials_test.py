"""Trials for other programs: their answers score as the model's would."""

import json

import numpy as np
import pandas as pd
import pytest

import wm
from tests.launch import binaries
from wm import core
from wm.core import registry

SPEC = 'maps(rows=4, columns=4, max_moves=8)'
NOISY = "noisy_oracle(wrong=0.1, illegal=0.02, by='prefix')"
# In one round, and in several.
STATIC = [
  'next_token(num=20)',
  'distinction(trials=12, samples=0)',
  "compression(trials=12, samples=5, suffixes='world', k=1)",
]
SAMPLED = ['compression(trials=6, samples=3)', 'detour(num=6)']


@pytest.fixture(scope='module')
def world():
  return registry.make('world', SPEC)


def answered(asked: pd.DataFrame, model: str, world) -> pd.DataFrame:
  """Keys, and what a model says of their prefixes, one by one."""
  reader = wm.load_predictor(model, world).predictor
  rows = [np.array([prefix], np.int32) for prefix in asked.prefix_tokens]
  output = [reader.log_probs(row, np.array([row.shape[1]])) for row in rows]
  answers = [log_probs[0, -1].tolist() for log_probs in output]
  return pd.DataFrame({'key': asked.key, 'answer': answers})


def rounds(metrics, model: str, world) -> tuple[pd.DataFrame, int]:
  """All answers of a model to metrics, and how often it was asked."""
  answers = pd.DataFrame({'key': [], 'answer': []})
  for num in range(50):
    asked = wm.trials(metrics, world, answers=answers)
    if asked.empty:
      return answers, num
    answers = pd.concat([answers, answered(asked, model, world)])
  raise AssertionError('it never ends')


@pytest.mark.parametrize('model', ['oracle()', NOISY, 'uniform()'])
@pytest.mark.parametrize('metrics', [STATIC, SAMPLED])
def test_answers_of_a_model_score_as_the_model(metrics, model, world, tmp_path):
  answers, num = rounds(metrics, model, world)
  assert num == 1 if metrics is STATIC else num >= 1
  judged = wm.judge(answers, metrics, world, out=tmp_path / 'a', name='mine')
  scored = wm.score(model, metrics, world, out=tmp_path / 'b')
  assert len(judged) == len(scored)
  for mine, theirs in zip(judged, scored, strict=True):
    for name in ('spec', 'quantity', 'value', 'low', 'high', 'n', 'clusters'):
      assert mine[name] == theirs[name], (mine['spec'], name)
  # To the bit, trial by trial, side columns too.
  both = [wm.rows(tmp_path / name) for name in 'ab']
  rows = [frame.drop(columns=['run', 'model']) for frame in both]
  pd.testing.assert_frame_equal(*rows, check_exact=True)
  comparison = wm.compare(tmp_path / 'a', tmp_path / 'b')
  assert comparison.a == 'mine'
  assert set(comparison.differences.difference.dropna()) == {0.0}


def test_the_world_s_own_answers_are_those_of_the_oracle(world):
  asked = wm.trials(STATIC, world, form='answers')
  assert set(asked.question) == {'all_next', 'yes_no'}
  assert asked.key.is_unique
  judged = wm.judge(
    asked.assign(answer=asked.truth), STATIC, world, form='answers'
  )
  scored = wm.score('oracle()', STATIC, world)
  assert len(judged) == len(scored)
  for mine, theirs in zip(judged, scored, strict=True):
    assert mine['n'] == theirs['n'] > 0
    assert mine['value'] == pytest.approx(theirs['value'], abs=1e-6)


def test_a_row_says_what_is_asked(world):
  asked = wm.trials(STATIC, world, form='answers')
  for row in asked.itertuples():
    assert row.prefix == ' '.join(world.vocab[t] for t in row.prefix_tokens)
    assert row.suffix == ' '.join(world.vocab[t] for t in row.suffix_tokens)
    tokens = np.array([row.prefix_tokens + row.suffix_tokens], np.int32)
    state = world.init(1)
    steps, reached = world.walk(state, tokens, np.array([tokens.shape[1]]))
    if row.question == 'yes_no':
      assert row.truth == ('yes' if steps[0] == tokens.shape[1] else 'no')
      size = np.array([len(row.prefix_tokens)])
      _, reached = world.walk(state, tokens, size)
    else:
      legal = np.flatnonzero(world.legal(reached)[0])
      assert row.truth == [world.vocab[token] for token in legal]
    assert row.state == world.format(reached[0])


def test_no_answer_is_no_trial(world):
  metric = STATIC[0]
  asked = wm.trials(metric, world, form='answers')
  blank = asked.assign(answer=[None, *asked.truth[1:]])
  entry = wm.judge(blank, metric, world, form='answers')[0]
  assert entry['value'] == 1
  assert entry['counts']['positions_no_answer'] >= 1


@pytest.mark.parametrize('suffix', ['.csv', '.jsonl', '.parquet'])
@pytest.mark.parametrize('form', ['log_probs', 'answers'])
def test_files_of_every_kind(suffix, form, world, tmp_path):
  if suffix == '.parquet':
    pytest.importorskip('pyarrow')
  metric = 'next_token(num=5)'
  asked_file, file = tmp_path / f'asked{suffix}', tmp_path / f'said{suffix}'
  flags = f'--world={SPEC}', f'--metric={metric}', f'--form={form}'
  code, out, err = binaries.run('score', *flags, f'--trials={asked_file}')
  assert code == 0, err
  asked = wm.trials(metric, world, form=form)
  assert f'{len(asked)} questions of {len(asked)} have no answer' in out
  read = {
    '.csv': pd.read_csv,
    '.jsonl': lambda path: pd.read_json(path, lines=True),
    '.parquet': pd.read_parquet,
  }[suffix](asked_file)
  assert read.key.tolist() == asked.key.tolist()
  if form == 'answers':
    output = read.assign(answer=read.truth)
  else:
    output = answered(asked, 'oracle()', world)
  if suffix == '.csv':
    as_text = output.answer.map(lambda x: x if isinstance(x, str) else str(x))
    text = as_text.str.replace('-inf', '-Infinity').str.replace("'", '"')
    output.assign(answer=text).to_csv(file, index=False)
  elif suffix == '.jsonl':
    lines = output[['key', 'answer']].to_dict('records')
    file.write_text(''.join(json.dumps(line) + '\n' for line in lines))
  else:
    output.to_parquet(file)
  judge = f'--judge={file}', f'--out={tmp_path / "out"}', '--name=mine'
  code, out, err = binaries.run('score', *flags, *judge)
  assert code == 0, err
  entries = json.loads((tmp_path / 'out' / 'scores.json').read_text())
  assert {entry['model'] for entry in entries} == {'mine'}
  assert entries[0]['value'] == 1
  # Nothing is open any more.
  again = flags[0], flags[1], flags[2], judge[0], f'--trials={asked_file}'
  code, out, err = binaries.run('score', *again)
  assert (code, '0 questions' in out) == (0, True), err


def test_log_probs_by_word_may_leave_unlikely_tokens_out(world):
  metric = STATIC[0]
  asked = wm.trials(metric, world)
  answer = [
    {word: float(np.log(0.9 / len(truth))) for word in truth}
    for truth in asked.truth
  ]
  entries = wm.judge(asked.assign(answer=answer), metric, world)
  values = {entry['quantity']: entry['value'] for entry in entries}
  assert values['valid_mass'] == pytest.approx(0.9)
  assert values['validity'] == values['exact_set'] == 1


BAD = {
  'missing': lambda table: table[1:],
  'twice': lambda table: pd.concat([table, table[:1]]),
  'alien': lambda table: pd.concat([table, table[:1].assign(key='nope')]),
  'no column': lambda table: table.drop(columns='key'),
  'logits': lambda table: table.assign(answer=[[0.5] * 18] * len(table)),
  'too few': lambda table: table.assign(answer=[[0.0]] * len(table)),
  'nan': lambda table: table.assign(answer=[[np.nan] * 18] * len(table)),
  'word': lambda table: table.assign(answer=[{'nope': 0.0}] * len(table)),
  'text': lambda table: table.assign(answer='yes'),
  'blank': lambda table: table.assign(answer=None),
}
SAYS = {
  'missing': '1 of \\d+ questions have no answer, such as [0-9a-f]{16}; ',
  'twice': 'answers has 1 keys twice, such as [0-9a-f]{16}; expected one',
  'alien': '1 of \\d+ keys are of no question of these metrics, such as nope',
  'no column': "answers has no column 'key'; available: ",
}


@pytest.mark.parametrize('wrong', BAD)
def test_unusable_answers_are_one_line(wrong, world, tmp_path):
  metric = 'next_token(num=10)'
  asked = wm.trials(metric, world)
  good = answered(asked, 'uniform()', world)
  says = SAYS.get(wrong, 'the answer to [0-9a-f]{16} is .*; expected log-prob')
  with pytest.raises(core.InputError, match=says) as error:
    wm.judge(BAD[wrong](good), metric, world, out=tmp_path / 'out')
  assert '\n' not in str(error.value)
  assert not (tmp_path / 'out').exists()


@pytest.mark.parametrize('value', ['maybe', 'X Y', 2])
def test_unusable_yes_and_no(value, world):
  metric = STATIC[1]
  asked = wm.trials(metric, world, form='answers')
  with pytest.raises(core.InputError, match='expected yes or no'):
    wm.judge(asked.assign(answer=value), metric, world, form='answers')


@pytest.mark.parametrize('metric', ['probe()', 'exactness()'])
def test_a_metric_that_asks_nothing_says_so(metric, world):
  line = 'asks no questions about tokens of maps: it needs .*; available: acc'
  with pytest.raises(core.InputError, match=line):
    wm.trials(metric, world)


def test_answers_of_another_seed_are_alien(world):
  metric = 'next_token(num=10)'
  answers = answered(wm.trials(metric, world), 'uniform()', world)
  with pytest.raises(core.InputError, match='have no answer'):
    wm.judge(answers, metric, world, seed=1)
