"""Benchmarks: what their lines say, and that none quotes another run."""

import ast
import pathlib

import pytest

from tests.bench import harness

BENCH = pathlib.Path(__file__).parent / 'bench'


def test_a_ratio_names_its_baseline():
  assert harness.Line('walks', 1.0, 'walks/s').ratio is None
  harness.Line('walks', 1.0, 'walks/s', 'NumPy, same run', 2.0)
  for baseline, ratio in (('NumPy, same run', None), ('', 2.0)):
    with pytest.raises(ValueError, match='walks: a ratio and its baseline'):
      harness.Line('walks', 1.0, 'walks/s', baseline, ratio)


@pytest.mark.parametrize(
  'path', sorted(BENCH.glob('*.py')), ids=lambda path: path.stem
)
def test_no_figure_of_another_run_is_kept(path):
  """A rate of another machine would be a number named for who reached it."""
  tree = ast.parse(path.read_text())
  names = {
    node.id
    for node in ast.walk(tree)
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
  }
  assert not names & {'PUBLISHED', 'THEIRS', 'BASELINE'}
  assert 'another machine' not in path.read_text()


def test_the_readme_has_no_ratio_to_a_figure_from_elsewhere():
  text = (BENCH.parents[1] / 'README.md').read_text()
  for words in ('(the published code:', '(the published engine:'):
    assert words not in text
