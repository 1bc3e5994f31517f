"""Words, and which of them are in the language of a world."""

import itertools

import numpy as np

from tests import judging
from wm import core


def words(symbols, longest):
  """All words over some symbols, up to a length."""
  for length in range(longest + 1):
    yield from itertools.product(symbols, repeat=length)


def accepted(world, several):
  """Which of some words are in the world's language, by its own judgement."""
  width = max(map(len, several)) + 1
  index = {symbol: k for k, symbol in enumerate(world.vocab)}
  tokens = np.zeros((len(several), width), np.int32)
  for row, word in zip(tokens, several, strict=True):
    row[: len(word)] = [index[symbol] for symbol in word]
    row[len(word)] = world.end
  lengths = np.array([len(word) + 1 for word in several], np.int32)
  return judging.judge(world, core.Sequences(tokens, lengths)) == 'valid'
