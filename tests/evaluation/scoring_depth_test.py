"""How many calls lie between scoring and a sampled token."""

import sys

import pytest

from tests import tiny
from tests.evaluation import counted
from wm.core import accept, registry
from wm.evaluation import scoring

MOST = 5


def calls_to_a_token(model: str, metric: str, out) -> list[int]:
  """Calls from scoring.run's frame to each Accept.draw, itself included."""
  world = tiny.World()
  predictor = registry.make('model', model).predictor(world, 0)
  draw, run = accept.Accept.draw.__code__, scoring.run.__code__
  result = []

  def note(frame, event, _):
    if event != 'call' or frame.f_code is not draw:
      return
    depth = 0
    while frame is not None and frame.f_code is not run:
      frame, depth = frame.f_back, depth + 1
    assert frame is not None, 'a token is drawn outside of scoring.run'
    result.append(depth)

  sys.setprofile(note)
  try:
    counted.silent(predictor, world, registry.make('metric', metric), out)
  finally:
    sys.setprofile(None)
  return result


@pytest.mark.parametrize('metric', ['compression', 'distinction'])
@pytest.mark.parametrize('model', ['noisy_oracle()', 'uniform()'])
def test_few_calls_lie_between_scoring_and_a_token(metric, model, tmp_path):
  spec = f'{metric}(trials=3, samples=2)'
  result = calls_to_a_token(model, spec, tmp_path)
  assert result
  assert max(result) <= MOST
