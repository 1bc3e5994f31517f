"""CogEval's regressions and clusters, on recorded scores and made-up ones."""

import json

import numpy as np
import pandas as pd
import pytest

from wm import core
from wm.evaluation import comparisons
from wm.papers.cogeval import report as reports
from wm.papers.cogeval import statistics


@pytest.fixture(scope='module')
def golden(cogeval):
  return json.loads((cogeval / 'golden.json').read_text())


def audited(record):
  return statistics.of_paper(record.final[record.final['prompts'] == 'v2'])


def of(frame, snapshot):
  return statistics.of_paper(frame[frame['snapshot'] == snapshot])


@pytest.fixture(scope='module')
def fits(record):
  """Table 2, of the scores of the last commit."""
  return {
    'final_recorded': statistics.stepwise(
      statistics.of_paper(record.final), 'recorded'
    ),
    'final_rescored_v2': statistics.stepwise(audited(record), 'solver'),
  }


def is_golden(found, wanted):
  assert (found.n, found.successes) == (wanted['n'], wanted['successes'])
  assert found.null_deviance == pytest.approx(wanted['null_deviance'], abs=1e-3)
  for step, row in zip(found.steps, wanted['terms'], strict=True):
    assert step['deviance'] == pytest.approx(row['chi2'], abs=1e-3)
    assert step['df'] == row['df']
    assert step['p'] == pytest.approx(row['p'], rel=1e-4, abs=1e-300)
  assert found.steps[-1]['df'] == 40  # The paper's 44 is not possible.


def test_golden_deviances(fits, golden):
  for name, found in fits.items():
    is_golden(found, golden['glm'][name])


@pytest.mark.parametrize(
  'snapshot',
  [
    '2023-06-07',
    pytest.param('2023-06-14', marks=pytest.mark.slow),
    pytest.param('2023-07-12', marks=pytest.mark.slow),
  ],
)
def test_golden_deviances_of_snapshots(record, golden, snapshot):
  found = statistics.stepwise(of(record.history, snapshot), 'recorded')
  is_golden(found, golden['glm'][f'snapshot_{snapshot}'])


def test_the_paper_s_terms_but_for_its_values(fits):
  """Temperature is next to nothing, all else is much, graph the most."""
  by = {step['term']: step for step in fits['final_recorded'].steps}
  assert max(by, key=lambda name: by[name]['deviance']) == 'graph'
  little = {'temperature', 'model:temperature'}
  assert {name for name, step in by.items() if step['p'] > 1e-3} == little
  # By questions, which domain was asked for hardly matters.
  assert by['domain']['effect'] > 50
  domain = fits['final_rescored_v2'].steps[2]
  assert domain['term'] == 'domain'
  assert domain['p'] < 1e-9
  assert domain['clustered_p'] > 0.5


def test_the_score_of_the_paper_s_time(record):
  """specs: 847.33, 4358.75, ...; degrees of freedom by rank."""
  frame = record.may[record.may['snapshot'] == '2023-05-20']
  found = statistics.stepwise(statistics.of_paper(frame, cot=True), 'token')
  assert found.n == 24_688
  assert found.null_deviance == pytest.approx(11865.98, abs=0.01)
  assert [(round(x['deviance'], 2), x['df']) for x in found.steps] == [
    (847.33, 7),
    (4358.75, 5),
    (799.38, 2),
    (1.80, 2),
    (520.95, 4),
    (3.72, 12),
    (1398.27, 10),
    (463.66, 20),
    (162.43, 8),
    (599.88, 37),
  ]


def test_separation_is_found_told_and_does_not_diverge(record):
  """Plain iterations end far above the deviance that they began with."""
  frame = record.may[record.may['snapshot'] == '2023-05-20']
  frame = statistics.of_paper(frame, cot=True)
  found = statistics.stepwise(frame, 'exact')
  assert max(step['separated'] for step in found.steps) > 100
  assert all(step['deviance'] > 0 for step in found.steps)
  first = next(step for step in found.steps if step['separated'])
  assert first['term'] == 'graph:group'


def made(rows, num=40):
  """An answer a row: (model, graph) -> successes of num."""
  found = [
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
  return pd.DataFrame(found)


TWO = ('model',), ('graph',)


def test_sums_and_answers_give_the_same_differences():
  frame = made({('a', 'x'): 9, ('a', 'y'): 21, ('b', 'x'): 17, ('b', 'y'): 36})
  found = statistics.stepwise(frame, 'score', TWO)
  # Each answer a cell of its own: another deviance, the same differences.
  alone = statistics.stepwise(
    frame.assign(own=np.arange(len(frame))), 'score', TWO
  )
  import statsmodels.api as sm

  one = np.ones((len(frame), 1))
  model = (frame['model'] == 'b').to_numpy(float)[:, None]
  graph = (frame['graph'] == 'y').to_numpy(float)[:, None]
  rows = [
    sm.GLM(frame['score'], design, sm.families.Binomial()).fit().deviance
    for design in (one, np.hstack([one, model]), np.hstack([one, model, graph]))
  ]
  assert rows[0] != pytest.approx(found.null_deviance)
  gains = [step['deviance'] for step in found.steps]
  assert gains == pytest.approx([rows[0] - rows[1], rows[1] - rows[2]])
  assert gains == pytest.approx([step['deviance'] for step in alone.steps])


def test_a_cell_without_success_is_a_limit():
  """x is never answered by b: 2 x 2, an interaction reproduces all cells."""
  frame = made({('a', 'x'): 9, ('a', 'y'): 21, ('b', 'x'): 0, ('b', 'y'): 36})
  terms = (*TWO, ('model', 'graph'))
  found = statistics.stepwise(frame, 'score', terms)
  assert [step['separated'] for step in found.steps] == [0, 0, 1]
  assert found.steps[-1]['residual'] == pytest.approx(0, abs=1e-6)


def test_df_are_ranks():
  """b is never asked about y: the interaction says nothing."""
  frame = made({('a', 'x'): 9, ('a', 'y'): 21, ('b', 'x'): 17})
  steps = statistics.stepwise(frame, 'score', (*TWO, ('model', 'graph'))).steps
  assert [step['df'] for step in steps] == [1, 1, 0]
  assert [steps[2][name] for name in ('deviance', 'p', 'f')] == [0, 1, None]


def test_an_interaction_alone_has_the_main_effects():
  frame = made({('a', 'x'): 9, ('a', 'y'): 21, ('b', 'x'): 17, ('b', 'y'): 36})
  terms = (*TWO, ('model', 'graph'))
  by_term = statistics.stepwise(frame, 'score', terms).steps
  (alone,) = statistics.stepwise(frame, 'score', terms[2:]).steps
  assert alone['df'] == 3
  total = sum(step['deviance'] for step in by_term)
  assert alone['deviance'] == pytest.approx(total)


def test_missing_scores_are_refused():
  frame = made({('a', 'x'): 9, ('b', 'x'): 3})
  with pytest.raises(core.InputError, match="no answer has a score 'none'"):
    statistics.stepwise(frame.assign(none=np.nan), 'none', TWO)


def test_coefficients_are_those_of_statsmodels(record):
  import statsmodels.api as sm

  frame = audited(record)
  frame = frame[frame['model'] == 'gpt-4-32k']
  found = statistics.regression(frame, 'solver', ('graph', 'domain'))
  words = frame[['graph', 'domain']].astype(object)
  design = pd.get_dummies(words, drop_first=True).astype(float)
  design.insert(0, 'constant', 1.0)
  wanted = sm.GLM(frame['solver'], design, sm.families.Binomial()).fit(
    cov_type='cluster', cov_kwds={'groups': frame['question'].to_numpy()}
  )
  assert [c['value'] for c in found.coefficients] == pytest.approx(
    list(wanted.params), rel=1e-6
  )
  assert [c['error'] for c in found.coefficients] == pytest.approx(
    list(wanted.bse), rel=1e-3
  )
  assert all(c['error'] > c['naive'] for c in found.coefficients)


def test_separated_coefficients_are_firth_s():
  """Of 2 x 2 they are log odds ratios of cells with a half added to each."""
  frame = made({('a', 'x'): 12, ('b', 'x'): 0})
  found = statistics.regression(frame, 'score', ('model', 'graph'))
  assert found.firth
  wanted = np.log(0.5 / 40.5) - np.log(12.5 / 28.5)
  second = found.coefficients[1]
  assert second['value'] == pytest.approx(wanted, rel=1e-5)
  assert second['error'] >= second['naive']
  with pytest.raises(core.InputError, match="model is never 'c'; available: a"):
    statistics.regression(frame, 'score', ['model'], {'model': 'c'})
  twice = frame.assign(graph=frame['model'])
  with pytest.raises(core.InputError, match='3 coefficients, of which 2'):
    statistics.regression(twice, 'score', ('model', 'graph'))


def test_one_right_answer_of_each_kind_has_coefficients():
  """Log odds of 1.5 to .5 in each cell, where Fisher's steps do not settle."""
  frame = made({(model, 'x'): 12 for model in 'abc'}).groupby('model').head(1)
  frame = frame.assign(score=1.0)
  found = statistics.regression(frame, 'score', ['model'])
  assert found.firth
  assert found.coefficients[0]['value'] == pytest.approx(np.log(3), abs=1e-6)
  for one in found.coefficients[1:]:
    assert one['value'] == pytest.approx(0, abs=1e-6)


def test_repeats_of_a_question_are_alike(record):
  """specs section 6: 62.6 % are all right or wrong, correlation .62."""
  some = audited(record)
  fixed = ~some['condition'].astype(str).str.endswith('stepPath')
  some = some[fixed & some['model'].isin([*statistics.MODELS][:3])]
  found = statistics.intraclass(some, 'recorded')
  assert found['correlation'] == pytest.approx(0.62, abs=0.01)
  assert found['effect'] == pytest.approx(19, abs=0.6)
  cold = statistics.intraclass(some[some['temperature'] == 0], 'recorded')
  assert cold['same'] == pytest.approx(0.626, abs=5e-4)


def test_an_interval_by_questions_is_wide(record):
  some = audited(record)
  some = some[
    (some['model'] == 'gpt-4-32k') & (some['condition'] == 'valuePath')
  ]
  found = reports.REPORT.mean(some, 'solver')
  assert (found.n, found.clusters) == (1620, 18)
  drawn = np.quantile(statistics.bootstrap(some, 'solver'), [0.025, 0.975])
  assert drawn == pytest.approx([0.45, 0.78], abs=0.01)
  assert found.low < drawn[0] < drawn[1] < found.high


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
  found = statistics.intraclass(frame, 'score')
  assert abs(found['correlation']) < 0.02
  assert found['size'] == pytest.approx(30)
  alike = frame.assign(score=frame['question'] % 2)
  found = statistics.intraclass(alike, 'score')
  assert [found['correlation'], found['effect']] == pytest.approx([1, 30])
  with pytest.raises(core.InputError, match='several of each of two questions'):
    statistics.intraclass(frame.iloc[:30], 'score')


def test_models_are_compared_on_what_both_were_asked():
  rng = np.random.default_rng(1)
  hard = rng.random(60)  # A question's difficulty is common to all models.
  rows = [
    (question, model, float(rng.random() < share))
    for question in range(60)
    for model, share in (
      ('same', hard[question]),
      ('copy', hard[question]),
      ('better', min(hard[question] + 0.4, 1)),
    )
    for _ in range(10)
    if not (model == 'better' and question < 20)
  ]
  frame = pd.DataFrame(rows, columns=['question', 'model', 'score'])
  frame = frame.assign(temperature=0.0)
  found = statistics.pairs(
    frame, 'score', ['same', 'copy', 'better'], draws=999
  )
  by = {(one['first'], one['second']): one for one in found}
  alike, apart = by['same', 'copy'], by['same', 'better']
  assert alike['mean'].low < 0 < alike['mean'].high
  assert alike['p'] > 0.05
  assert (apart['mean'].low > 0.15, apart['p']) == (True, 0.001)
  assert (alike['mean'].clusters, apart['mean'].clusters) == (60, 40)
  assert comparisons.holm([0.01, 0.04, 0.03, 0.5]) == pytest.approx(
    [0.04, 0.09, 0.09, 0.5]
  )
  assert [one['adjusted'] for one in found] == comparisons.holm(
    [o['p'] for o in found]
  )


def test_the_paper_s_orders_of_graphs_hold_and_one_is_sure(record):
  """GPT-4: B < C and D < E; by questions only the second is beyond chance."""
  some = record.final[record.final['model'] == 'gpt-4-32k']
  some = some[some['domain'].isin(statistics.DOMAINS)]
  means = {
    'recorded': (0.786, 0.473, 0.549, 0.413, 0.651, 0.380),
    'solver': (0.865, 0.567, 0.722, 0.374, 0.636, 0.392),
  }
  for score, wanted in means.items():
    used = some if score == 'recorded' else some[some['prompts'] == 'v2']
    by = [used[used['graph'] == name] for name in statistics.LETTERS]
    found = [reports.REPORT.mean(one, score).value for one in by]
    assert found == pytest.approx(wanted, abs=6e-4), score
    tree = statistics.contrast(by[1], by[2], score)
    assert tree['low'] < 0 < tree['difference']
    stars = statistics.contrast(by[3], by[4], score)
    assert (stars['low'] > 0.1, stars['p']) == (True, 0.001)
