"""The recorded conversations of CogEval."""

import pytest

from wm.language.cogeval import conversations


@pytest.fixture(scope='session')
def recorded(testdata):
  """All conversations with audited prompts."""
  folder = testdata / 'cogeval'
  if not folder.is_dir():
    pytest.skip(f'no recorded conversations of CogEval at {folder}')
  return conversations.load(folder)
