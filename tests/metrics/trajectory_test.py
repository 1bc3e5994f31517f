"""Trajectories of predictors whose errors are known."""

import numpy as np
import pytest

from wm import core
from wm.core import registry
from wm.evaluation import paths, statistics
from wm.metrics import trajectory
from wm.models.serving import stateless

PAIR = 'orbits(rows=41)'
SEVERAL = (
  "orbits(systems='exoplanets', planets=3, bins=200, box=50.0, rows=41, "
  'steps=(0.3,))'
)
NUM, AHEAD = 12, (1, 5, 100)


class Sure(stateless.Stateless):
  """Is sure of the token that a rule gives after each history."""

  def __init__(self, world: core.Latent, rule) -> None:
    self.vocab_size, self.end = len(world.vocab), world.end
    self.max_len, self._rule = world.max_len, rule

  def log_probs(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    out = np.full((*tokens.shape, self.vocab_size), -50.0, np.float32)
    out[..., 1] = -1.0  # A time step is no coordinate, however likely.
    for b, row in enumerate(tokens):
      for t in range(3, int(lengths[b])):
        out[b, t, self._rule(row[: t + 1])] = -2.0
    return out


def world_of(spec: str) -> core.Latent:
  return registry.make('world', spec)


def scored(predictor, world, **inputs) -> dict[str, core.Scores]:
  metric = trajectory.Metric(**{'num': NUM, 'ahead': AHEAD, **inputs})
  return {s.quantity: s for s in metric(predictor, world, 1)}


def knowing(world: core.Latent, shift: int = 0) -> Sure:
  """Knows what comes, and says what is `shift` bins beside it."""
  held = world.sample(NUM, 1, 'heldout').tokens
  known = {row[:4].tobytes(): row for row in held}
  assert len(known) == NUM
  return Sure(
    world, lambda row: known[row[:4].tobytes()][min(len(row), 81)] + shift
  )


@pytest.fixture(scope='module')
def pair() -> core.Latent:
  return world_of(PAIR)


@pytest.fixture(scope='module')
def right(pair) -> dict[str, core.Scores]:
  return scored(knowing(pair), pair)


def test_who_knows_the_bin_is_off_by_its_width(pair, right):
  for name in ('one_step', 'ahead_1', 'ahead_5'):
    assert right[name].value.max() <= pair.width / 2
    bins = right[f'one_step_bins{name[8:]}'] if name == 'one_step' else None
    if bins is not None:
      np.testing.assert_allclose(bins.value, right[name].value / pair.width)
  mean = (right['one_step_bins'].value ** 2).mean() ** 0.5
  assert mean == pytest.approx(12**-0.5, rel=0.05)
  assert right['one_step_published'].value.max() == 0
  assert right['ahead_published_5'].value.max() == 0
  assert set(right['ahead_100'].reason) == {'past_the_end'}
  assert right['one_step_previous'].value.mean() > 5 * mean * pair.width


def test_an_error_of_bins_is_seen_as_such(pair, right):
  """Three bins beside the truth, of a roll-out that goes on from there."""
  off = scored(knowing(pair, 3), pair)
  for name in ('one_step_bins', 'ahead_bins_5'):
    assert np.abs(off[name].value - 3).max() < 0.75
  assert statistics.summarize(off['one_step_bins'])['value'] == pytest.approx(
    (9 + 1 / 12) ** 0.5, abs=0.05
  )
  unit = (3 * pair.width * 0.0299872) ** 2
  np.testing.assert_allclose(off['one_step_published'].value, unit, rtol=1e-4)
  for name in ('one_step_previous', 'ahead_mean_5', 'ahead_ballistic_1'):
    np.testing.assert_array_equal(off[name].value, right[name].value)


def test_published_baselines_are_of_bins_and_of_whole_sequences(pair, right):
  """Rows of both bodies from the third frame on, and the mean of all rows."""
  sequences = pair.sample(NUM, 1, 'heldout')
  seen = paths.seen(pair, sequences)
  unit = 0.0299872**2
  before = ((seen[:, 4:] - seen[:, 2:-2]) ** 2).mean((1, 2)) * unit
  name = 'one_step_previous_published'
  np.testing.assert_allclose(right[name].value, before, rtol=1e-4)
  middle = seen.mean(1, keepdims=True)
  mean = ((seen[:, 4:] - middle) ** 2).mean((1, 2)) * unit
  name = 'one_step_mean_published'
  np.testing.assert_allclose(right[name].value, mean, rtol=1e-4)
  start = seen.shape[1] // 2
  fifth = ((seen[:, start + 4] - middle[:, 0]) ** 2).mean(1) * unit
  name = 'ahead_mean_published_5'
  np.testing.assert_allclose(right[name].value, fifth, rtol=1e-4)


class Torn(Sure):
  """Finds three bins to either side of what a rule gives as likely."""

  def log_probs(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    result = super().log_probs(tokens, lengths)
    best = result[..., 2:].argmax(-1) + 2
    out = np.full(result.shape, -300.0, np.float32)
    for step, log in ((-3, -250.001), (3, -250.0)):
      place = np.clip(best + step, 0, result.shape[-1] - 1)
      np.put_along_axis(out, place[..., None], log, -1)
    return out


def test_the_mean_of_two_likely_places_is_between_them(pair, right):
  rule = knowing(pair)._rule
  result = scored(Torn(pair, rule), pair)
  np.testing.assert_allclose(
    result['one_step_expected'].value, right['one_step'].value, rtol=1e-2
  )
  assert result['one_step_bins'].value.min() > 2.5
  sure = right['one_step_expected'].value
  np.testing.assert_allclose(sure, right['one_step'].value, rtol=1e-6)


def test_who_gives_no_place_a_probability_has_no_mean(pair):
  class Mute(Sure):
    def log_probs(self, tokens, lengths):
      out = super().log_probs(tokens, lengths)
      out[..., pair.first_bin :] = -np.inf
      return out

  result = scored(Mute(pair, lambda row: 5), pair)['one_step_expected']
  assert set(result.reason) == {'no_distribution'}


def test_who_says_the_last_place_is_the_baseline(pair):
  """Two bodies of two coordinates: the same one was four tokens ago."""
  result = scored(Sure(pair, lambda row: row[-4]), pair)
  for name in ('one_step', 'ahead'):
    for horizon in ('',) if name == 'one_step' else ('_1', '_5'):
      np.testing.assert_allclose(
        result[name + horizon].value, result[f'{name}_previous{horizon}'].value
      )


def test_who_goes_on_straight_is_the_baseline(pair):
  def straight(row):
    before = row[-8] if len(row) >= 8 else row[-4]
    return np.clip(2 * row[-4] - before, pair.first_bin, last)

  last = len(pair.vocab) - 1
  result = scored(Sure(pair, straight), pair)
  np.testing.assert_allclose(
    result['ahead_1'].value, result['ahead_ballistic_1'].value
  )
  np.testing.assert_allclose(
    result['one_step'].value, result['one_step_ballistic'].value
  )


@pytest.mark.parametrize('spec', [PAIR, SEVERAL])
@pytest.mark.parametrize('prefix', [None, 17, 24])
def test_baselines_by_hand(spec, prefix):
  world = world_of(spec)
  tracks = trajectory._Tracks.of(world, world.sample(8, 3))
  result = {b: tracks.guess(b, prefix) for b in trajectory.BASELINES}
  for n in range(8):
    bodies, seen = int(tracks.bodies[n]), tracks.seen[n]
    for row in range(16, 40):
      limit = row if prefix is None else min(row, prefix)
      mine = [k for k in range(limit) if k % bodies == row % bodies]
      last, before = seen[mine[-1]], seen[mine[-2]]
      frames = (row - mine[-1]) // bodies
      for name, want in (
        ('previous', last),
        ('mean', seen[mine].mean(0)),
        ('ballistic', last + frames * (last - before)),
      ):
        np.testing.assert_allclose(result[name][n, row], want, atol=1e-12)


def test_several_planets_are_judged_from_their_third_frame_on():
  world = world_of(SEVERAL)
  result = scored(knowing(world), world)
  assert result['one_step'].value.max() < world.width
  assert result['one_step'].measured.all()
  assert set(result['one_step'].columns['years']) == {0.3}


def test_what_cannot_be_measured_is_told(pair):
  short = knowing(pair)
  short.max_len = 40
  result = scored(short, pair)
  assert set(result['one_step'].reason) == {'longer_than_model'}
  assert set(result['ahead_5'].reason) == {'longer_than_model'}
  few = scored(knowing(pair), pair, prefix=3)
  assert set(few['ahead_1'].reason) == {'short_prefix'}
  beyond = scored(knowing(pair), pair, prefix=400)
  assert set(beyond['ahead_1'].reason) == {'past_the_end'}
  for fields, output in (({'ahead': ()}, 'at least 1'), ({'num': 0}, 'num=0')):
    with pytest.raises(core.InputError, match=output):
      trajectory.Metric(**fields)
