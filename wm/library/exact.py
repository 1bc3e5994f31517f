"""Exact results: boundaries, audits, counts, and learned automata."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from wm import core
from wm.core import registry, resources
from wm.core.accept import Accept
from wm.evaluation import statistics
from wm.library.loading import Source, loaded_predictor
from wm.metrics import audit as audits
from wm.options import check, takes
from wm.options.calls import Count, Extraction, Loading, Path
from wm.recon import extract as recon
from wm.worlds.base import games


class Audit(NamedTuple):
  """The moves that a model gets wrong; see `wm.metrics.audit`.

  Attributes:
    summary: counts, shares and their upper bounds; `sentence()` says them.
    false: moves that the model accepts and the world forbids.
    missing: moves that the world allows and the model refuses.
    scores: the rows, one for each question.
  """

  summary: audits.AuditSummary
  false: list[audits.WrongMove]
  missing: list[audits.WrongMove]
  scores: tuple[core.Scores, ...]


class Apart(NamedTuple):
  """Two states of a world, told apart by suffixes of at most `depth` tokens.

  Attributes:
    world, first, second, depth: the arguments of `boundary`; states are [W].
    sizes: (k, boundary, interior) for each k up to `depth`: numbers of suffixes
      of at most k tokens. A suffix of the boundary is legal from the first
      state and not from the second, and all but its last token are legal from
      both. A suffix of the interior is legal from both.
  """

  world: core.Enumerable
  first: np.ndarray
  second: np.ndarray
  depth: int
  sizes: list[tuple[int, int, int]]

  @property
  def by_length(self) -> list[tuple[int, int, int]]:
    """Like `sizes`, but for suffixes of exactly k tokens."""
    return [
      (after[0], after[1] - before[1], after[2] - before[2])
      for before, after in itertools.pairwise([(0, 0, 0), *self.sizes])
    ]

  def suffixes(self) -> list[str]:
    """The suffixes of the boundary in words, the shortest first."""
    pair = self.first[None], self.second[None]
    (suffixes,) = self.world.boundary(*pair, self.depth).listed()
    vocab = self.world.vocab
    return [' '.join(vocab[k] for k in suffix) for suffix in suffixes]


def locate(world: core.Written, text: str) -> np.ndarray:
  """[W] state that a text names: a state, or a sequence of tokens from init.

  Raises:
    InputError: neither, or a sequence with an illegal token.
  """
  try:
    return world.parse(text)[0]
  except ValueError as error:  # Also for numbers that are too long.
    unread = error
    if not isinstance(error, core.InputError):
      unread = core.InputError(f'{text!r:.60} is no state: {error}')
    index = {token: k for k, token in enumerate(world.vocab) if k}
    words = text.split()
    if not words or not all(word in index for word in words):
      raise unread from error
  tokens = np.array([[index[word] for word in words]], np.int32)
  steps, states = world.walk(world.init(1), tokens, np.array([len(words)]))
  if not steps[0]:  # Not a sequence: the error about the state says more.
    raise unread
  if steps[0] < len(words):
    raise core.InputError(
      f'token {words[steps[0]]!r}, number {steps[0] + 1} of {text!r}, is not '
      f'legal in state {world.format(states[0])}'
    )
  return states[0]


def opening(world: core.World) -> np.ndarray:
  """[W] the initial state, after the prompt tokens that are forced.

  The start token of chess is forced; the origin and the destination of a route
  are not.
  """
  state = world.init(1)
  for _ in range(world.prompt_len):
    (forced,) = np.nonzero(world.legal(state)[0])
    if len(forced) != 1:
      break
    state = world.advance(state, forced)
  return state[0]


def _enumerable(world: core.World | str, depth: int) -> Any:
  """A world whose states can be named, and its suffixes counted.

  Raises InputError where the numbers to a depth do not fit into memory.
  """
  truth = registry.resolve('world', world)
  digits = depth**2 * len(truth.vocab).bit_length() // 16
  resources.require_memory(digits, f'{truth.name}: numbers to depth={depth}')
  for kind in (core.Written, core.Enumerable):
    if not isinstance(truth, kind):
      raise core.InputError(f'{truth.name} is not {kind.__name__.lower()}')
  return truth


def boundary(
  world: core.World | str, first: str, second: str, depth: Count = 5
) -> Apart:
  """The exact Myhill-Nerode boundary and interior of two states.

  Vafa et al. 2024, definitions 2.3 and 2.4.

  Args:
    world: whose rules.
    first, second: states as the world writes them, or sequences of tokens
      that lead to them.
    depth: longest suffix, in tokens.
  """
  truth = _enumerable(world, depth)
  state, other = (locate(truth, text) for text in (first, second))
  numbers = map(itertools.accumulate, truth.count(state, other, depth))
  sizes = list(zip(range(1, depth + 1), *numbers, strict=True))
  return Apart(truth, state, other, depth, sizes)


@takes(loading=(Loading, 'checkpoint', 'model', 'seed'))
def audit(
  source: Source,
  world: core.World | str | None = None,
  *,
  metric: core.Metric | str = 'audit()',
  loading: Loading,
) -> Audit:
  """Asks a model for the next token in every state of a world.

    audit = wm.audit('runs/city')
    print(audit.summary.sentence('street'))
    print(audit.false[:10])

  Args:
    source: a run, a model or a predictor, see `wm.load_predictor`.
    world: whose rules; None is the world that a run was trained on.
    metric: the audit, such as audit(states=1000, accept='top_k(1)').
    loading: checkpoint, model, see `wm.load_predictor`; and the seed of the
      prefixes.

  Raises:
    InputError: the model gives no next tokens, or the world draws no states.
  """
  loaded, predictor = loaded_predictor(source, world, loading)
  chosen = registry.resolve('metric', metric)
  if not isinstance(chosen, audits.Metric):
    raise core.InputError(f'metric={metric!r}; expected audit(...)')
  if not isinstance(loaded.world, core.Prefixed):
    raise core.InputError(
      f'{loaded.world.name} draws no states (core.Prefixed)'
    )
  scores = chosen(predictor, loaded.world, loading.seed)
  results = {
    x.quantity: {**statistics.summarize(x), 'counts': x.counts} for x in scores
  }
  if not results['exact']['n']:
    reasons = ', '.join(results['exact']['unmeasured'])
    raise core.InputError(f'audit: {loaded.name} answered nowhere: {reasons}')
  moves = audits.wrong_moves(scores[0].measured_columns())
  return Audit(
    audits.summary(results),
    [move for move in moves if move.false],
    [move for move in moves if not move.false],
    scores,
  )


def count(
  world: core.World | str, state: str | None = None, depth: Count = 5
) -> Iterator[int]:
  """Counts the legal token sequences from a state, by length from 1.

  Args:
    world: its rules apply.
    state: the written form of a state, or a sequence of tokens that reaches it;
      None is the start.
    depth: greatest length.

  Yields:
    A count as soon as it is known.
  """
  truth = _enumerable(world, depth)
  start = opening(truth) if state is None else locate(truth, state)
  if not isinstance(truth, games.GameWorld):
    yield from truth.count(start, start, depth)[1]
    return
  for bound in range(1, depth + 1):  # Each length dwarfs those before it.
    yield truth.count(start, start, bound)[1][-1]


@takes(learning=Extraction, loading=Loading)
def extract(
  source: Source,
  world: core.World | str | None = None,
  out: Path | None = None,
  *,
  accept: Accept | str = 'epsilon(0.01)',
  learning: Extraction,
  loading: Loading,
  log: Callable[[str], None] = lambda line: None,
) -> recon.Extracted:
  """Learns the minimal automaton that a model implies, beside the world's.

  A word is in the model's language if each of its tokens is accepted after
  those before it; one forward pass of a word answers all of its beginnings.
  Random walks of the world and of the model, and the world's boundaries, look
  for words about which the automaton is wrong. Fresh walks bound how often it
  still is (probably approximately correct, Angluin 1987).

  A model has no prediction before the first token, so the legal first tokens
  are taken from the world. A model that has learned how long sequences are has
  states that count tokens: a smaller `depth` leaves these out.

  Args:
    source: a run, a model or a predictor, see `wm.load_predictor`.
    world: its rules apply; None is the world that a run was trained on.
    out: folder for extraction.json and automaton.json, which the world
      automaton(file=...) reads. None writes nothing.
    accept: the rule by which the model accepts a token.
    learning: depth, most, queries, walks.
    loading: checkpoint, model, name, see `wm.load_predictor`; and the seed of
      all walks.
    log: gets the counts and the files.

  Returns:
    The automaton, the world's, and all differences, which `print` shows.

  Raises:
    InputError: the model gives no next tokens or only answers yes and no, or
      has no words of `depth` tokens.
  """
  check(learning)
  loaded, _ = loaded_predictor(source, world, loading)
  loaded.check()
  rule = registry.resolve('accept', accept)
  if out is None:
    extracted = recon.extract(loaded, learning, rule, loading.seed)
  else:
    extracted = recon.write(loaded, learning, rule, loading.seed, out)
  for line in extracted.lines():
    log(line)
  if out is not None:
    log(f'written: {out}/{recon.FILE}, {recon.MACHINE}')
  return extracted
