"""Forces: the published prompts and answers, baselines, laws, hostile text."""

import json

import numpy as np
import pytest

from wm import core
from wm.language.papers.forces import questions, recorded
from wm.language.papers.forces import report as reports
from wm.language.papers.forces import score as scoring

MODELS = 'claude-sonnet-4-20250514', 'gemini-2.5-pro', 'o3'
# Correlation, error, different numbers of the recorded answers; None: constant.
RECORDED = {
  'o3': [
    (None, 0.0291, 1),
    (0.9965, 0.0010, 450),
    (-0.0481, 0.0771, 11),
    (None, 0.1525, 1),
    (0.1309, 0.0119, 11),
  ],
  'claude-sonnet-4-20250514': [
    (-0.1034, 0.9778, 11),
    (0.9965, 0.0008, 449),
    (0.5605, 0.0685, 51),
    (0.4275, 0.2517, 50),
    (0.7921, 0.0061, 66),
  ],
  'gemini-2.5-pro': [
    (0.9666, 0.0088, 404),
    (0.9965, 0.0009, 450),
    (0.7403, 0.0631, 450),
    (0.7080, 0.3565, 449),
    (0.2551, 0.0568, 298),
  ],
}
# Errors of who could answer.
ERRORS = {
  'mean': (0.0300, 0.0073, 0.0717, 0.2169, 0.0121),
  'interpolation': (0.0172, 0.0038, 0.0590, 0.2389, 0.0101),
  'newton_origin': (0.0009, 0.0155, 0.0349, 0.0504, 0.4502),
  'newton_fitted': (0.0006, 0.0007, 0.0017, 0.0004, 0.0041),
  'newton_true': (0.00026, 0.00022, 0.0011, 0.00032, 0.0038),
}
ORIGIN = (0.99995, 0.9968, 0.9669, 0.9828, 0.1429)


@pytest.fixture(scope='module')
def folder(testdata):
  return testdata / 'orbits'


@pytest.fixture(scope='module')
def shown(folder):
  return questions.load(folder)


@pytest.fixture(scope='module')
def told(folder, shown):
  return recorded.load(folder, shown)


@pytest.fixture(scope='module')
def drawn():
  return questions.draw(12, 0)


def test_published_prompts_are_those_of_the_files_byte_for_byte(folder, shown):
  home = folder / 'llm-prompts'
  options = questions.ForceOptions(folder=str(folder), prompts=str(home))
  for text, system in questions.questions(options):
    path = home / f'{system.name}.txt'
    assert text.encode() == path.read_bytes()
  assert text != questions.prompt('origin', shown[-1])


ALL = '01234'


def test_a_published_prompt_with_places_says_any_system(
  folder, shown, drawn, tmp_path
):
  text = (folder / 'llm-prompts' / '0.txt').read_bytes().decode()
  lines = '\n'.join(x for x in text.splitlines() if 'Timestep: ' in x).strip()
  text = text.replace(lines + '\n', '{lines}').replace('449', '{last}')
  for system in shown:
    path = folder / 'llm-prompts' / f'{system.name}.txt'
    file = tmp_path / path.name
    file.write_text(text, newline='')
    made = questions.prompt('origin', system, str(tmp_path), ALL)
    assert made.encode() == path.read_bytes()
  few = drawn[0].every(90)
  made = questions.prompt('origin', few, str(tmp_path), ALL)
  assert made.count('Timestep: ') == len(few.force)


def test_prompts_of_other_systems_are_refused_in_a_line(folder, tmp_path):
  home = str(folder / 'llm-prompts')
  for fields, told in (
    ({'num': 2}, r'unknown 2\.txt; expected 0\.txt, 1\.txt$'),
    ({'num': 5}, r'0\.txt has no {lines}; expected {lines}, {last}$'),
    ({'prompts': str(tmp_path)}, r'no 0\.txt; expected 0\.txt, 1\.txt'),
    ({'variant': 'corrected'}, "no published prompts; expected 'origin'"),
    ({'variant': 'published'}, 'available: origin, corrected'),
  ):
    with pytest.raises(core.InputError, match=told):
      questions.questions(questions.ForceOptions(**{'prompts': home, **fields}))


def test_suns_are_where_the_states_say(shown):
  suns = [item.sun for item in shown]
  expected = [
    (0.0605, -0.0863),
    (1.5328, 1.5451),
    (-0.1579, 0.2116),
    (0.1131, 0.9736),
    (0.2069, 0.4379),
  ]
  np.testing.assert_allclose(suns, expected, atol=6e-5)
  assert [item.told_steps.max() < 225 for item in shown] == [True] * 5


def test_recorded_answers_score_as_published_data_say(shown, told):
  assert set(told) == set(MODELS)
  for model, expected in RECORDED.items():
    for item, answer, (r, error, distinct) in zip(
      shown, told[model], expected, strict=True
    ):
      result = scoring.scores(answer.force, item)
      assert not answer.failure
      assert result['answered'] == 1
      assert result['error'] == pytest.approx(error, abs=5.1e-5)
      assert result['distinct'] == distinct
      if r is None:
        assert np.isnan(result['r'])
      else:
        assert result['r'] == pytest.approx(r, abs=5.1e-5)


def test_baselines_have_their_known_errors(shown):
  for name, errors in ERRORS.items():
    for item, error in zip(shown, errors, strict=True):
      result = scoring.scores(scoring.BASELINES[name](item), item)['error']
      digits = 5 if error < 0.0005 else 4
      assert result == pytest.approx(error, abs=0.51 * 10**-digits), name
  for item, r in zip(shown, ORIGIN, strict=True):
    result = scoring.scores(scoring.newton_origin(item), item)['r']
    assert result == pytest.approx(r, abs=5.1e-5)


def test_the_one_curve_of_all_models_is_a_straight_line_in_time(shown, told):
  """System 1: correlation .9965 with the truth is that of time itself."""
  line = scoring.scores(scoring.line_in_time(shown[1]), shown[1])
  assert line['r'] == pytest.approx(0.9965, abs=5e-5)
  assert line['error'] == pytest.approx(0.0011, abs=5e-5)
  at = np.arange(450)
  for model, bend in (('o3', 1e-9), ('gemini-2.5-pro', 1e-7)):
    force = told[model][1].force
    off = force - np.polyval(np.polyfit(at, force, 1), at)
    assert np.abs(off).max() < bend * np.ptp(force)


def test_a_constant_in_each_system_follows_newton_over_systems(shown, told):
  """What a search over five systems finds is no knowledge of 1 / r^2."""
  speakers = {
    name: [answer.force for answer in answers] for name, answers in told.items()
  }
  mean = {'mean': [scoring.mean_force(item) for item in shown]}
  law = reports.laws(shown, mean)['mean']
  result = reports.laws(shown, speakers)
  for name in ('r', 'm1', 'm2'):
    assert result['o3'].power.exponents[name] == pytest.approx(
      {'r': -1.949, 'm1': 0.981, 'm2': 1.128}[name], abs=6e-4
    )
  for pair in law.within.values():
    assert np.isnan(pair).all()
  for key in '03':
    assert np.isnan(result['o3'].within[key]).all()
  # Zeros have no logarithm.
  assert result['claude-sonnet-4-20250514'].reason == 'not_positive'
  assert result['o3'].judged == 'few_systems'


def test_newton_is_judged_from_ten_systems_on(drawn):
  speakers = {
    name: [scoring.BASELINES[name](item) for item in drawn]
    for name in ('newton_true', 'constant')
  }
  result = reports.laws(
    drawn, {'truth': [item.force for item in drawn], **speakers}
  )
  assert result['truth'].judged == 'newton'
  assert result['newton_true'].judged == 'newton'
  low, high = result['truth'].power.interval('r')
  assert low <= -2 + 1e-6
  assert high >= -2 - 1e-6
  for pair in result['truth'].within.values():
    assert pair == pytest.approx((-2, 1), abs=1e-7)


def test_drawn_systems_are_told_over_the_whole_range(drawn):
  late = [item for item in drawn if (item.told_steps >= 225).any()]
  assert len(late) == len(drawn)
  for item in drawn:
    assert len(item.told_steps) == 10
    away = np.hypot(*(item.places - item.sun).T)
    np.testing.assert_allclose(away, item.distance, rtol=1e-12)
    again = questions.early(item, 10, 0)
    assert again.told_steps.max() < 225
    assert len(again.told_steps) == 10
  for tell, most in ((questions.early, 225), (questions.spread, 450)):
    with pytest.raises(core.InputError, match=f'expected 0 to {most}'):
      tell(drawn[0], most + 1, 0)


def test_corrected_prompts_say_where_the_sun_is(drawn):
  item = drawn[0].every(10)
  text = questions.prompt('corrected', item)
  x, y = item.sun
  assert f'The sun is at ({x:.2f}, {y:.2f})' in text
  assert 'origin' not in text
  assert text.count('Outcome: Unk') == len(item.force) - 10


@pytest.mark.parametrize(
  ('reply', 'force', 'failure'),
  [
    ('ANSWER: {0: 1.0e-8, 1: 2, 2: 3e0}', [1e-8, 2, 3], ''),
    ('{"a": 1} ANSWER: {"0": 1, "1": 2, "2": 3}', [1, 2, 3], ''),
    ('```\n{0: 1, 1: 2, 2: 3}\n```', [1, 2, 3], ''),
    ('<think>{0: 9}</think>ANSWER: {0: 1, 1: 2}', [1, 2, None], 'incomplete'),
    ('ANSWER: {0: 1, 1: 2, 2:', [1, 2, None], 'truncated'),
    ('ANSWER: {0: 1, 1: "x", 2: True, 9: 1}', [1, None, None], 'incomplete'),
    ('ANSWER: {0: 1, 1: 2, 2: 1e999}', [None] * 3, 'malformed'),
    ('ANSWER: {0: __import__("os").system("x")}', [None] * 3, 'malformed'),
    ('ANSWER: [1, 2, 3]', [1, 2, 3], ''),
    ("I'm sorry, I cannot do that.", [None] * 3, 'refused'),
    ('', [None] * 3, 'empty'),
    ('ANSWER: ' + '{' * 100_000, [None] * 3, 'too_deep'),
    ('x' * (1 << 21), [None] * 3, 'too_long'),
  ],
)
def test_replies_are_data(reply, force, failure):
  result = scoring.read(reply, 3)
  expected = [np.nan if item is None else item for item in force]
  np.testing.assert_array_equal(result.force, expected)
  assert result.failure == failure


def test_strange_keys_and_values_are_counted():
  values = {'0': 1, ' 1 ': 10**400, 'x': 2, '²': 3, '2': None, '-1': 4}
  result = scoring.of_dict({**values, '1' * 5000: 5}, 3)
  assert result.strange == 6
  np.testing.assert_array_equal(result.force, [1, np.nan, np.nan])


def test_scores_of_nothing_are_none(drawn):
  nothing = np.full(450, np.nan)
  result = scoring.scores(nothing, drawn[0])
  assert result['answered'] == result['distinct'] == 0
  assert np.isnan([result['error'], result['r'], result['positive']]).all()
  assert np.isnan(scoring.correlation(np.array([1e-300, 2e-300]), np.ones(2)))
  tiny = np.array([1e-300, 2e-300, 3e-300])
  assert scoring.correlation(tiny, tiny) == pytest.approx(1)


def test_damaged_folders_are_told_in_one_line(tmp_path, folder, shown):
  with pytest.raises(core.InputError, match=r'no llm-prompts/traj_0\.npy'):
    questions.load(tmp_path)
  home = tmp_path / 'llm-prompts'
  home.mkdir()
  for path in (folder / 'llm-prompts').glob('*_0.npy'):
    (home / path.name).write_bytes(path.read_bytes())
  assert questions.load(tmp_path)[0].planet == shown[0].planet
  with pytest.raises(core.InputError, match='no folder of a model'):
    recorded.load(tmp_path, shown)
  answer = tmp_path / 'llm-predictions' / 'm' / '0.json'
  answer.parent.mkdir(parents=True)
  with pytest.raises(core.InputError, match='no such file'):
    recorded.load(tmp_path, shown[:1])
  answer.write_text(json.dumps({'0': 1.0}))
  assert recorded.load(tmp_path, shown[:1])['m'][0].failure == 'incomplete'
  for name, array, message in (
    ('traj_0.npy', np.zeros((450, 3)), 'expected numbers of shape'),
    ('true_force_0.npy', np.full((450, 1), np.nan), 'not all numbers'),
    ('unmasked_inds_0.npy', np.array([450]), 'some of its steps'),
  ):
    before = (home / name).read_bytes()
    np.save(home / name, array)
    with pytest.raises(core.InputError, match=message):
      questions.load(tmp_path)
    (home / name).write_bytes(before)


def test_a_page_holds_the_grid_and_the_tables(shown, told):
  """Of two systems and two models, one of which is silent about one."""
  two = shown[:2]
  nothing = np.full(450, np.nan)
  speakers = {
    'o3': [answer.force for answer in told['o3'][:2]],
    'silent': [nothing, two[1].force],
  }
  result = reports.of_systems('corrected', two, speakers)
  (grid,) = result.pictures
  assert grid.name == 'forces.svg'
  assert grid.image.startswith(b'<svg')
  assert len(result.rows['forces']) == 2 * (2 + len(scoring.BASELINES))
  first = result.tables[0]
  assert first.heads == ('speaker', 'system 0', 'system 1')
  cells = {row[0]: row[1:] for row in first.rows}
  assert cells['o3'] == ('0.0291, –, 1', '0.0010, 0.9965, 450')
  assert cells['silent'] == ('–, –, 0', '0, 1, 450')


def test_a_page_of_systems_of_which_no_force_is_told_has_no_baselines(
  drawn, monkeypatch
):
  monkeypatch.setattr(reports, 'grid', lambda *_: b'')
  item = drawn[0].telling(np.zeros(0))
  result = reports.of_systems('corrected', [item], {'model': [item.force]})
  assert [row[0] for row in result.tables[0].rows] == ['model']
  assert 'no baseline' in result.lead
  assert np.isnan(scoring.baseline('line', item)).all()
