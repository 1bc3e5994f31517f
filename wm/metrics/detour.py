"""Detours: does decoding recover after forced legal moves?

Vafa et al. 2024, section 4 and table 2: at every step the model's token is
replaced, with some probability, by another legal token.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from wm import core
from wm.core import basics, capabilities, registry
from wm.core.fields import field
from wm.evaluation import boundaries, context, decoding
from wm.evaluation import support as supports

# Token cap of the published program, and tokens that it keeps free at the end.
PUBLISHED_LEN, PUBLISHED_SPARE = 100, 3
ALL = 'epsilon(0)'  # Any token of nonzero probability.


@dataclasses.dataclass(frozen=True)
class Metric(core.Metric):
  """Completes held-out prompts greedily while some moves are forced on it.

  At each step at which the end token is illegal, a detour replaces the model's
  move with a given probability. The detour is a move after which the task can
  still be completed within the cap. Decoding stops at the first illegal token.
  All probabilities share one set of uniform numbers. The detours at a smaller
  probability are therefore a subset of those at a larger one, as long as the
  routes agree, and results compare trial by trial.

  A game has no goal to miss: its prompt is the first move, or `prompt` moves,
  and a trial is valid if every token is legal until the game is over (table 4,
  with probabilities=(0, 0.01, 0.1, 0.25, 0.5)). Without detours, equal prompts
  give equal games, which are one cluster.

  Attributes:
    kind: 'random': any possible detour; 'adversarial': the least likely one;
      'second': the most likely one other than the model's own choice.
    probabilities: probabilities of a detour at each step.
    num: held-out prompts; 100 as published; 1000 give narrower intervals.
    variant: 'paper', or 'published': as the published program, which differs.
      Its random detours are never the model's own choice, unless that is the
      only move. At token i, counted from 0, its detours must leave at most 95 -
      i moves to the destination of 100 tokens in all, three fewer than fit.
    prompt: moves of the held-out sequence in the prompt, besides the tokens
      that state the task; the prompt has at least one token.
    support: 'all', or 'sampler': detours only onto tokens that the world's
      sampler may take after all tokens so far; see wm.evaluation.support.

  Glossary:
    valid: Share of prompts completed legally while each token is replaced, with
      this probability, by another legal one. A model with the true state
      recovers from each replacement.
    detours: Number of replacements per prompt at this probability. Trials that
      fail early have fewer.
    probability: probability of a detour at each step
  """

  version: ClassVar[str] = '3'
  sized_by: ClassVar[tuple[str, ...]] = ('num',)
  measures: ClassVar[Mapping[str, core.Measure]] = {
    'valid': core.Measure(1, 'recovers from every detour')
  }

  kind: str = field('random', choices=('random', 'adversarial', 'second'))
  probabilities: tuple[float, ...] = field(
    (0.0, 0.01, 0.1, 0.5, 0.75), least=0, most=1, fewest=1
  )
  num: int = field(100, least=1)
  variant: str = field('paper', choices=('paper', 'published'))
  prompt: int = field(0, least=0)
  support: str = field('all', choices=supports.CHOICES)

  def __call__(
    self, predictor: core.Predictor, world: core.World, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; a row per prompt, clustered by task."""
    sequences = world.sample(self.num, seed, split='heldout')
    num, levels = len(sequences), len(self.probabilities)
    max_len, reach = self.limits(predictor, world)
    # Trial p * num + n is prompt n at probability p.
    prompts = decoding.prompts(world, sequences, self.prompt)
    every = np.tile(prompts[0], (levels, 1)), np.tile(prompts[1], levels)
    detours = np.zeros(num * levels, np.int64)
    allowed = _on_support(self, world, *every)
    policy = _Detours(self, world, seed, num, reach, detours, allowed)
    decoded = decoding.decode(predictor, world, every, policy, max_len)
    group = context.clusters(world, sequences)
    columns = {
      'outcome': np.array(decoding.OUTCOMES)[decoded.outcome],
      'detours': detours,
      'tokens': decoded.lengths,
      **decoding.picture_columns(world, every, decoded),
    }
    quantities = []
    for level, probability in enumerate(self.probabilities):
      rows = slice(level * num, (level + 1) * num)
      part = {name: column[rows] for name, column in columns.items()}
      same = group if probability else decoding.merged(prompts, group)
      quantities += _scores(probability, part, same)
    return tuple(quantities)

  def limits(
    self, predictor: core.Predictor, world: core.World
  ) -> tuple[int, int]:
    """The cap on tokens, and the tokens within which a detour must end."""
    most, spare = world.max_len, 0
    if self.variant == 'published':
      most, spare = PUBLISHED_LEN, PUBLISHED_SPARE
    cap = min(most, predictor.max_len)
    return cap, min(most - spare, cap)


class _Allowed:
  """The tokens that the world's sampler may take next in each of T trials."""

  def __init__(self, support: supports.Support, memory: np.ndarray) -> None:
    """memory: [T, W] state of the process after the prompts."""
    self._support, self._memory = support, memory

  def tokens(self, trial: np.ndarray) -> np.ndarray:
    """[R, V] bool: the tokens that may follow in trials [R]."""
    return self._support.next(self._memory[trial])[0]

  def advance(self, trial: np.ndarray, tokens: np.ndarray) -> None:
    """Appends tokens [R] to trials [R]; DEAD appends nothing."""
    going = tokens != core.DEAD
    rows = trial[going]
    self._memory[rows] = self._support.process.advance(
      self._memory[rows], tokens[going].astype(np.int32)
    )


def _on_support(
  metric: Metric, world: core.World, prompts: np.ndarray, lengths: np.ndarray
) -> _Allowed | None:
  if metric.support == 'all':
    return None
  support = supports.Support.of(world, registry.make('accept', ALL))
  return _Allowed(support, support.follow(prompts, lengths)[0])


@dataclasses.dataclass(frozen=True)
class _Detours:
  """A decoding.Policy: greedy with detours.

  Attributes:
    metric: the metric's settings.
    world: world that the prompts are of.
    seed: seed of all detours.
    num: number of prompts; trial p * num + n is prompt n at probability p.
    reach: total tokens within which a task must be completable after a detour.
    detours: [T] number of detours of each trial; calls increase it.
    allowed: tokens that detours may take; None is all.
  """

  metric: Metric
  world: core.World
  seed: int
  num: int
  reach: int
  detours: np.ndarray
  allowed: _Allowed | None = None

  def __call__(self, step: decoding.DecodingStep) -> np.ndarray:
    """[R] the next tokens."""
    world, metric = self.world, self.metric
    level, prompt = np.divmod(step.trial, self.num)
    # Ties, like detours, are drawn alike at all probabilities.
    preferred = decoding.Greedy(self.seed)(step._replace(trial=prompt))
    left = self.reach - step.length
    options = capabilities.feasible_tokens(world, step.states, left)
    if world.end != core.DEAD:
      options = options.copy()
      # No detours at the goal: the trial may end.
      options[world.legal(step.states)[:, world.end]] = False
      options[:, world.end] = False
    if self.allowed is not None:
      options = options & self.allowed.tokens(step.trial)
    odds = np.asarray(metric.probabilities, np.float32)[level]
    # One number for all probabilities: a detour at a smaller probability is one
    # at a larger probability too.
    force = basics.uniforms(self.seed, prompt, step.length, 0) < odds
    force &= options.any(-1)
    if metric.kind in _BESIDES_OWN[metric.variant]:
      # The model's own choice is an option only if it is the only one.
      others = options & (np.arange(options.shape[1]) != preferred[:, None])
      options = np.where(others.any(-1, keepdims=True), others, options)
    pick = basics.uniforms(self.seed, prompt, step.length, 1)
    if metric.kind != 'random':
      sign = 1 if metric.kind == 'second' else -1
      options = _best(options, sign * step.log_probs)
    forced = boundaries.choice(options, pick)
    self.detours[step.trial[force]] += 1
    taken = np.where(force, forced, preferred)
    if self.allowed is not None:
      self.allowed.advance(step.trial, taken)
    return taken


def _best(options: np.ndarray, order: np.ndarray) -> np.ndarray:
  """[R, V] bool: the options [R, V] that are greatest by order [R, V].

  Ties are all included.
  """
  # Options of probability zero still rank above tokens that are no options.
  order = np.where(options, np.clip(order, -1e30, 1e30), -np.inf)
  return decoding.most_likely(order)


# Variant -> kinds of detour that exclude the model's own choice.
_BESIDES_OWN = {'paper': ('second',), 'published': ('second', 'random')}


def _scores(
  probability: float, columns: dict[str, np.ndarray], group: np.ndarray
) -> list[core.Scores]:
  valid = columns['outcome'] == decoding.OUTCOMES[decoding.VALID]
  odds = np.full(len(valid), float(probability))
  name = f'{probability:g}'
  return [
    core.scores(
      f'valid_{name}',
      valid,
      group=group,
      columns={'probability': odds, **columns},
    ),
    core.scores(
      f'detours_{name}', columns['detours'], group=group, bounds=(0.0, None)
    ),
  ]
