"""The flagfiles of model sizes say how many parameters they have."""

import pathlib
import re

import pytest

from wm.core import registry
from wm.models.nn import network

FOLDER = pathlib.Path(__file__).resolve().parents[2] / 'launch/flags/sizes'
# Tokens and longest sequence of what a header says its number is for.
TASKS = {"Manhattan's shortest paths": (4589, 99), 'Othello games': (61, 60)}


@pytest.mark.parametrize(
  'path',
  sorted(p for p in FOLDER.glob('*.flags') if p.stem != 'ladder'),
  ids=lambda path: path.stem,
)
def test_header_counts_the_parameters(path):
  text = path.read_text()
  (spec,) = re.findall(r'^--model=(.*)$', text, re.MULTILINE)
  ((output, task),) = re.findall(
    r'^# ([\d,]+) parameters on ([^(]+) \(', text, re.MULTILINE
  )
  shape = network.NetworkSpec(registry.make('model', spec), *TASKS[task])
  assert f'{shape.num_params:,}' == output
  assert f'sizes/{path.name}' in text


def test_the_papers_size_is_there():
  assert '89,366,784' in (FOLDER / 'paper.flags').read_text()
  assert len(list(FOLDER.glob('*.flags'))) >= 5
