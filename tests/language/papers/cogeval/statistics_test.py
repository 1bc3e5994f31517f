"""CogEval's regressions and clusters, on recorded scores and made-up ones."""

import json

import numpy as np
import pandas as pd
import pytest

from wm import core
from wm.language.papers.cogeval import report as reports
from wm.language.papers.cogeval import statistics


@pytest.fixture(scope='module')
def golden(cogeval):
  return json.loads((cogeval / 'golden.json').read_text())


def audited(record):
  return statistics.of_paper(record.final[record.final['prompts'] == 'v2'])


@pytest.fixture(scope='module')
def fits(record):
  """Table 2, of the scores of the last commit."""
  return {
    'final_recorded': statistics.stepwise(
      statistics.of_paper(record.final), 'recorded'
    ),
    'final_rescored_v2': statistics.stepwise(audited(record), 'solver'),
  }


def is_golden(outcome, wanted):
  null = outcome[0]['residual'] + outcome[0]['deviance']
  assert outcome[0]['n'] == wanted['n']
  assert null == pytest.approx(wanted['null_deviance'], abs=1e-3)
  for step, row in zip(outcome, wanted['terms'], strict=True):
    assert step['deviance'] == pytest.approx(row['chi2'], abs=1e-3)
    assert step['df'] == row['df']
    assert step['p'] == pytest.approx(row['p'], rel=1e-4, abs=1e-300)
  assert outcome[-1]['df'] == 40  # The paper's 44 is not possible.


def test_golden_deviances(fits, golden):
  for name, result in fits.items():
    is_golden(result, golden['glm'][name])


def test_the_paper_s_terms_but_for_its_values(fits):
  """Temperature is next to nothing, all else is much, graph the most."""
  by = {step['term']: step for step in fits['final_recorded']}
  assert max(by, key=lambda name: by[name]['deviance']) == 'graph'
  little = {'temperature', 'model:temperature'}
  assert {name for name, step in by.items() if step['p'] > 1e-3} == little
  # By questions, which domain was asked for hardly matters.
  assert by['domain']['effect'] > 50
  domain = fits['final_rescored_v2'][2]
  assert domain['term'] == 'domain'
  assert domain['p'] < 1e-9
  assert domain['clustered_p'] > 0.5


def made(rows, num=40):
  """An answer a row: (model, graph) -> successes of num."""
  result = [
    {
      'model': model,
      'graph': graph,
      'question': f'{graph}{k % 4}',
      'temperature': 0.0,
      'score': float(k < wins),
    }
    for (model, graph), wins in rows.items()
    for k in range(num)
  ]
  return pd.DataFrame(result)


TWO = ('model',), ('graph',)


def test_sums_and_answers_give_the_same_differences():
  frame = made({('a', 'x'): 9, ('a', 'y'): 21, ('b', 'x'): 17, ('b', 'y'): 36})
  result = statistics.stepwise(frame, 'score', TWO)
  # Each answer a cell of its own: another deviance, the same differences.
  alone = statistics.stepwise(
    frame.assign(mine=np.arange(len(frame))), 'score', TWO
  )
  import statsmodels.api as sm

  item = np.ones((len(frame), 1))
  model = (frame['model'] == 'b').to_numpy(float)[:, None]
  graph = (frame['graph'] == 'y').to_numpy(float)[:, None]
  rows = [
    sm.GLM(frame['score'], design, sm.families.Binomial()).fit().deviance
    for design in (
      item,
      np.hstack([item, model]),
      np.hstack([item, model, graph]),
    )
  ]
  assert rows[0] != pytest.approx(result[0]['residual'] + result[0]['deviance'])
  gains = [step['deviance'] for step in result]
  assert gains == pytest.approx([rows[0] - rows[1], rows[1] - rows[2]])
  assert gains == pytest.approx([step['deviance'] for step in alone])


def test_a_cell_without_success_is_a_limit():
  """x is never answered by b: 2 x 2, an interaction reproduces all cells."""
  frame = made({('a', 'x'): 9, ('a', 'y'): 21, ('b', 'x'): 0, ('b', 'y'): 36})
  terms = (*TWO, ('model', 'graph'))
  result = statistics.stepwise(frame, 'score', terms)
  assert [step['separated'] for step in result] == [0, 0, 1]
  assert result[-1]['residual'] == pytest.approx(0, abs=1e-6)


def test_df_are_ranks():
  """b is never asked about y: the interaction says nothing."""
  frame = made({('a', 'x'): 9, ('a', 'y'): 21, ('b', 'x'): 17})
  steps = statistics.stepwise(frame, 'score', (*TWO, ('model', 'graph')))
  assert [step['df'] for step in steps] == [1, 1, 0]
  assert [steps[2][name] for name in ('deviance', 'p', 'f')] == [0, 1, None]


def test_an_interaction_alone_has_the_main_effects():
  frame = made({('a', 'x'): 9, ('a', 'y'): 21, ('b', 'x'): 17, ('b', 'y'): 36})
  terms = (*TWO, ('model', 'graph'))
  by_term = statistics.stepwise(frame, 'score', terms)
  (alone,) = statistics.stepwise(frame, 'score', terms[2:])
  assert alone['df'] == 3
  total = sum(step['deviance'] for step in by_term)
  assert alone['deviance'] == pytest.approx(total)


def test_missing_scores_are_refused():
  frame = made({('a', 'x'): 9, ('b', 'x'): 3})
  with pytest.raises(core.InputError, match="no answer has a score 'none'"):
    statistics.stepwise(frame.assign(none=np.nan), 'none', TWO)


def test_repeats_of_a_question_are_alike(record):
  """specs section 6: 62.6 % are all right or wrong, correlation .62."""
  sample = audited(record)
  fixed = ~sample['condition'].astype(str).str.endswith('stepPath')
  sample = sample[fixed & sample['model'].isin([*statistics.MODELS][:3])]
  result = statistics.intraclass(sample, 'recorded')
  assert result['correlation'] == pytest.approx(0.62, abs=0.01)
  assert result['effect'] == pytest.approx(19, abs=0.6)
  cold = statistics.intraclass(sample[sample['temperature'] == 0], 'recorded')
  assert cold['same'] == pytest.approx(0.626, abs=5e-4)


def test_an_interval_by_questions_is_wide(record):
  sample = audited(record)
  sample = sample[
    (sample['model'] == 'gpt-4-32k') & (sample['condition'] == 'valuePath')
  ]
  result = reports.REPORT.mean(sample, 'solver')
  assert (result.n, result.clusters) == (1620, 18)
  drawn = np.quantile(statistics.bootstrap(sample, 'solver'), [0.025, 0.975])
  assert drawn == pytest.approx([0.45, 0.78], abs=0.01)
  assert result.low < drawn[0] < drawn[1] < result.high


def test_independent_answers_have_no_design_effect():
  rng = np.random.default_rng(0)
  frame = pd.DataFrame(
    {
      'question': np.repeat(np.arange(200), 30),
      'model': 'a',
      'temperature': 0.0,
      'score': rng.random(6000) < 0.4,
    }
  )
  result = statistics.intraclass(frame, 'score')
  assert abs(result['correlation']) < 0.02
  assert result['size'] == pytest.approx(30)
  alike = frame.assign(score=frame['question'] % 2)
  result = statistics.intraclass(alike, 'score')
  assert [result['correlation'], result['effect']] == pytest.approx([1, 30])
  assert statistics.intraclass(frame.iloc[:30], 'score') == {}


def test_the_paper_s_orders_of_graphs_hold_and_one_is_sure(record):
  """GPT-4: B < C and D < E; by questions only the second is beyond chance."""
  sample = record.final[record.final['model'] == 'gpt-4-32k']
  sample = sample[sample['domain'].isin(statistics.DOMAINS)]
  means = {
    'recorded': (0.786, 0.473, 0.549, 0.413, 0.651, 0.380),
    'solver': (0.865, 0.567, 0.722, 0.374, 0.636, 0.392),
  }
  for score, expected in means.items():
    used = sample if score == 'recorded' else sample[sample['prompts'] == 'v2']
    by = [used[used['graph'] == name] for name in statistics.LETTERS]
    result = [reports.REPORT.mean(item, score).value for item in by]
    assert result == pytest.approx(expected, abs=6e-4), score
    tree = statistics.contrast(by[1], by[2], score)
    assert tree['low'] < 0 < tree['difference']
    stars = statistics.contrast(by[3], by[4], score)
    assert stars['low'] > 0.1
