"""The recorded conversations of CogEval."""

import types

import pytest

from wm.language.papers.cogeval import recorded


@pytest.fixture(scope='session')
def cogeval(testdata):
  """Folder of the recorded answers."""
  folder = testdata / 'cogeval'
  if not folder.is_dir():
    pytest.skip(f'no recorded conversations of CogEval at {folder}')
  return folder


@pytest.fixture(scope='session')
def record(cogeval):
  """All recorded scores."""
  return types.SimpleNamespace(
    final=recorded.read_table(cogeval / recorded.FINAL),
    may=recorded.read_table(cogeval / recorded.MAY),
  )


@pytest.fixture(scope='session')
def conversations(cogeval):
  """All conversations with audited prompts."""
  return recorded.load(cogeval)
