"""Pictures of a trial: what its prefixes reach, and where it goes wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import registry
from wm.reporting.worst import Trial


class Scene(NamedTuple):
  """One picture: SVG, and what it shows."""

  drawing: str
  caption: str


class Painter:
  """Draws trials of one world."""

  def __init__(self, spec: str):
    """Args: spec: of the world. Raises InputError where it cannot be had."""
    self.world = registry.make('world', spec)
    self.ids = {word: n for n, word in enumerate(self.world.vocab)}

  def rows(self, trial: Trial) -> list[list[Scene]]:
    """The state or states reached, and each right where it goes wrong.

    A row with both where there is one state, else a row of each kind. Where
    the first token of the continuation is wrong, both are one picture. Empty
    where the world knows neither prefix nor state.
    """
    states = self._states(trial)
    names = ['the prefix']
    if len(states) == 2:
      names = ['the first prefix', 'the other prefix']
      if len(np.unique(self.world.state_id(np.stack(states)))) == 1:
        names, states = ['either prefix'], states[:1]
    found, later = [], []
    for name, state in zip(names, states, strict=False):
      steps, there, verdict = self._parting(state, trial)
      where = f'After {name}'
      found.append(Scene(self.world.render(state), where))
      if verdict and not steps:
        found[-1] = found[-1]._replace(caption=f'{where}: {verdict}')
      elif verdict:
        on = '1 token' if steps == 1 else f'{steps} tokens'
        where += f' and {on} of the continuation'
        later.append(Scene(self.world.render(there), f'{where}: {verdict}'))
    rows = [found + later] if len(states) == 1 else [found, later]
    return [row for row in rows if row]

  def _states(self, trial: Trial) -> list[np.ndarray]:
    """[W] each, of every prefix; none where one of them is unknown."""
    prefixes, written = trial.prefixes, trial.states
    if not prefixes or (written and len(written) != len(prefixes)):
      prefixes = ('',) * len(written)
    if not written:
      written = ('',) * len(prefixes)
    pairs = zip(prefixes, written, strict=True)
    states = [self._reach(*pair) for pair in pairs]
    return [] if any(state is None for state in states) else states

  def _reach(self, prefix: str, written: str) -> np.ndarray | None:
    """[W] the state after a prefix, which knows the last move; else as written.

    prefix: tokens joined by blanks, or ''. written: the state, or ''.
    """
    tokens = self._tokens(prefix.split())
    if prefix and tokens is not None:
      steps, state = self._walk(self.world.init(1)[0], tokens)
      if steps == len(tokens):
        return state
    if not written:
      return None
    try:
      return self.world.parse_state(written)[0]
    except core.InputError:
      return None  # Written by another version of the world.

  def _tokens(self, words: Sequence[str]) -> np.ndarray | None:
    if not all(word in self.ids for word in words):
      return None
    return np.array([self.ids[word] for word in words], np.int32)

  def _walk(
    self, state: np.ndarray, tokens: np.ndarray
  ) -> tuple[int, np.ndarray]:
    """Tokens followed from a state [W], and the state [W] there."""
    length = np.array([len(tokens)], np.int32)
    steps, states = self.world.walk(state[None], tokens[None], length)
    return int(steps[0]), states[0]

  def _parting(
    self, state: np.ndarray, trial: Trial
  ) -> tuple[int, np.ndarray, str]:
    """Tokens to the place `wrong_at`, the state there, what is legal there.

    The words are '' where the place is unknown.
    """
    tokens = self._tokens(trial.suffix)
    if tokens is None or not 1 <= trial.wrong_at <= len(tokens):
      return 0, state, ''
    before = trial.wrong_at - 1
    steps, there = self._walk(state, tokens[:before])
    legal = self.world.legal(there[None])[0, tokens[steps]]
    verdict = 'legal' if legal else 'illegal'
    early = ' already' if steps < before else ''
    return steps, there, f'{trial.suffix[steps]} is {verdict} here{early}'
