"""Extraction of the automaton of a transformer, by batched queries."""

from __future__ import annotations

import pathlib
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import wm
from tests.bench import harness
from wm import core
from wm.core import registry
from wm.evaluation import automaton_learner as learner
from wm.evaluation.scoring import Loaded

WORLD = "automaton(preset='tomita7', length=32)"
MODEL = 'transformer(layers=2, width=64)'
DEPTH, WALKS, QUERIES = 24, 300, 10_000


def bench_extraction() -> Iterator[harness.Line]:
  """All of wm.extract on a trained model; AALpy asks as much word by word."""
  with tempfile.TemporaryDirectory() as name:
    loaded = _trained(pathlib.Path(name))
    settings: dict[str, Any] = {'depth': DEPTH, 'walks': WALKS}
    settings['queries'] = QUERIES
    start = time.perf_counter()
    wm.extract(loaded, **settings)  # Compiles the programs.
    first = time.perf_counter() - start
    start, wall = time.process_time(), time.perf_counter()
    result = wm.extract(loaded, **settings)
    ours = time.process_time() - start
    compiling = max(first - (time.perf_counter() - wall), 0.0)
    theirs, states = _peer(loaded, result.summary['states'])
  facts = result.summary
  yield harness.Line(
    'extraction of tomita7',
    ours,
    'CPU-s',
    *('AALpy, a word at a time, same run', theirs / ours, compiling),
    target=(
      f'at most 60 CPU-s and {QUERIES:,} queries; took {facts["queries"]:,}, '
      f'{facts["states"]} states (AALpy {states}, with one more for refused '
      f'words), the world has {facts["world_states"]}'
    ),
  )


def _trained(folder: pathlib.Path) -> Loaded:
  """A model that knows the language."""
  wm.sample(WORLD, folder, wm.Sampling(num=20_000, num_heldout=200))
  training = wm.Training(steps=800, batch=64, lr=3e-3, warmup=50)
  run = wm.train(WORLD, MODEL, folder, training)
  return wm.load_predictor(run)


def _peer(loaded: Loaded, most: int) -> tuple[float, int]:
  """CPU-seconds and states of AALpy's KV with as many walks."""
  from aalpy import base, learning_algs, oracles

  predictor = loaded.predictor.interactive()  # Quick for a word at a time.
  assert isinstance(predictor, core.Predictor)
  accept = registry.make('accept', 'epsilon(0.01)')
  teacher = learner.Teacher(
    *(predictor, loaded.world, accept), depth=DEPTH, budget=2**31
  )

  class Words(base.SUL):
    """A word grows by a letter at a time; all of it is asked at the end."""

    def query(self, word: tuple) -> list:
      """See base.SUL; one forward pass for each word."""
      self.num_queries += 1
      (_,) = teacher.answers([word])
      ends = range(1, len(word) + 1) if word else (0,)
      return [str(teacher.known(word[:end])) for end in ends]

    def pre(self) -> None:
      """See base.SUL."""
      self.word: tuple[int, ...] = ()

    def post(self) -> None:
      """See base.SUL."""

    def step(self, letter: int | None) -> str:
      """See base.SUL."""
      self.word = (*self.word, letter) if letter is not None else ()
      return str(teacher.answers([self.word])[0])

  letters = [*range(1, len(loaded.world.vocab))]
  words = Words()
  walks = oracles.RandomWordEqOracle(
    *(letters, words),
    num_walks=2 * WALKS,
    min_walk_len=2,
    max_walk_len=DEPTH - 1,
  )
  start = time.process_time()
  machine = learning_algs.run_KV(
    *(letters, words, walks, 'moore'), max_learning_rounds=most, print_level=0
  )
  return time.process_time() - start, len(machine.states)
