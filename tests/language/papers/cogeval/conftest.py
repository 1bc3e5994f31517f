"""The recorded conversations of CogEval."""

import types

import pytest

from wm.language.papers.cogeval import recorded


@pytest.fixture(scope='session')
def cogeval(real):
  """Folder of the recorded answers."""
  return real('cogeval')


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
