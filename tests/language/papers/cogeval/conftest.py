"""The recorded conversations of CogEval."""

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
  return recorded.read_scores(cogeval)


@pytest.fixture(scope='session')
def conversations(cogeval):
  """All conversations with audited prompts."""
  return recorded.load(cogeval)
