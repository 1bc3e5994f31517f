"""The recorded conversations of CogEval."""

import pytest

from wm.language.cogeval import conversations, scores


@pytest.fixture(scope='session')
def cogeval(testdata):
  """Folder of the recorded answers."""
  folder = testdata / 'cogeval'
  if not folder.is_dir():
    pytest.skip(f'no recorded conversations of CogEval at {folder}')
  return folder


@pytest.fixture(scope='session')
def answers(cogeval):
  """All recorded scores."""
  return scores.read(cogeval)


@pytest.fixture(scope='session')
def recorded(cogeval):
  """All conversations with audited prompts."""
  return conversations.load(cogeval)
