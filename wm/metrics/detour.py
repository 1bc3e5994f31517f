"""Detours: does decoding recover after forced legal moves?

Vafa et al. 2024, section 4 and table 2: with some probability at every step
the model's token is replaced by another legal one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np

from wm import core
from wm.core import basics, capabilities, registry
from wm.core.fields import field
from wm.evaluation import boundaries, context, decoding
from wm.evaluation import support as supports

# Tokens of the published program, and those that it keeps free at the end.
PUBLISHED_LEN, PUBLISHED_SPARE = 100, 3
ALL = 'epsilon(0)'  # Any token that is possible.


@dataclasses.dataclass(frozen=True)
class Metric(core.Metric):
  """Completes held-out prompts greedily, though some moves are made for it.

  At each step, where the end token is not legal, a detour is made with the
  given probability, onto a move after which the task can still be completed
  within the cap. Decoding stops at the first token that the world refuses.
  One set of uniform numbers serves all probabilities, so the detours at a
  smaller one are a subset, as long as routes agree, and results compare
  trial by trial.

  A game has no goal to miss: its prompt is the first move, or `prompt` moves,
  and a trial is valid when every token is legal until the game is over (table
  4, with probabilities=(0, 0.01, 0.1, 0.25, 0.5)). Without detours, equal
  prompts give equal games, which are one cluster.

  Attributes:
    kind: 'random': any such move; 'adversarial': the least likely one;
      'second': the most likely one besides the model's own choice.
    probabilities: of a detour at each step.
    num: held-out prompts; the paper's 100, though 1000 say more.
    variant: 'paper', or 'published' for what the published program does where
      it differs: random detours are never the model's own choice, unless it
      is the only one; and at token i, counted from 0, a move must leave at
      most 95 - i moves to the destination, of 100 tokens in all, which is
      three fewer than there is room for.
    prompt: moves of the held-out sequence that are given, beside what states
      the task; at least one token is.
    support: 'all'; or 'sampler': a detour is made only onto a token that the
      sampler of the world takes after all tokens so far, see
      wm.evaluation.support.
    support_bound: least probability, exclusive, of such a token.
    max_len: total tokens at the cap; 0 is the length the world's sequences
      have at most, of variant 'published' 100.

  Glossary:
    valid: Share of prompts completed legally where each token is replaced, with
      this probability, by another legal one. A model that knows where it is
      finds its way all the same.
    detours: Replacements made per prompt at this probability. Trials that fail
      early make fewer.
    probability: probability of a detour at each step
  """

  version: ClassVar[str] = '2'
  sized_by: ClassVar[tuple[str, ...]] = ('num',)
  ideal: ClassVar[Mapping[str, str]] = {
    'valid': '1: recovers from every detour',
  }

  kind: str = field('random', choices=('random', 'adversarial', 'second'))
  probabilities: tuple[float, ...] = field(
    (0.0, 0.01, 0.1, 0.5, 0.75), least=0, most=1, fewest=1
  )
  num: int = field(100, least=1)
  variant: str = field('paper', choices=('paper', 'published'))
  prompt: int = field(0, least=0)
  support: str = field('all', choices=supports.CHOICES)
  support_bound: float = field(0.01, least=0, below=1)
  max_len: int = field(0, least=0)

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
    """Total tokens at the cap, and by which a detour must be completable."""
    most, spare = self.max_len or world.max_len, 0
    if self.variant == 'published':
      most, spare = self.max_len or PUBLISHED_LEN, PUBLISHED_SPARE
    cap = decoding.cap(predictor, world, most)
    return cap, min(most - spare, cap)


class _Allowed:
  """The tokens that the sampler takes after what T trials have decoded."""

  def __init__(self, support: supports.Support, memory: np.ndarray) -> None:
    """memory: [T, W] of the process after the prompts."""
    self._support, self._memory = support, memory

  def tokens(self, trial: np.ndarray) -> np.ndarray:
    """[R, V] bool of trials [R]."""
    return self._support.next(self._memory[trial])[0]

  def advance(self, trial: np.ndarray, tokens: np.ndarray) -> None:
    """Trials [R] go on by tokens [R], DEAD for none."""
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
  support = supports.Support.of(metric, world, registry.make('accept', ALL))
  return _Allowed(support, support.follow(prompts, lengths)[0][:, -1])


@dataclasses.dataclass(frozen=True)
class _Detours:
  """A decoding.Policy: greedy with detours.

  Attributes:
    metric: what it is a policy of.
    world: the truth.
    seed: of all detours.
    num: prompts; trial p * num + n is prompt n at probability p.
    reach: total tokens within which a task must be completable after a detour.
    detours: [T] detours of each trial, counted up here.
    allowed: where detours may go; None is anywhere.
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
    preferred = decoding.greedy(step)
    left = self.reach - step.length
    options = capabilities.feasible_tokens(world, step.states, left)
    if world.end != core.DEAD:
      options = options.copy()
      # At its goal a trial is left to end.
      options[world.legal(step.states)[:, world.end]] = False
      options[:, world.end] = False
    if self.allowed is not None:
      options = options & self.allowed.tokens(step.trial)
    level, prompt = np.divmod(step.trial, self.num)
    odds = np.asarray(metric.probabilities, np.float32)[level]
    # One number for all levels: what is forced at a smaller probability is
    # forced at a larger one too.
    force = basics.uniforms(self.seed, prompt, step.length, 0) < odds
    force &= options.any(-1)
    if metric.kind in _BESIDES_OWN[metric.variant]:
      # The model's own choice is an option only where it is the only one.
      others = options & (np.arange(options.shape[1]) != preferred[:, None])
      options = np.where(others.any(-1, keepdims=True), others, options)
    pick = basics.uniforms(self.seed, prompt, step.length, 1)
    forced = _CHOOSERS[metric.kind](options, step.log_probs, pick)
    self.detours[step.trial[force]] += 1
    taken = np.where(force, forced, preferred)
    if self.allowed is not None:
      self.allowed.advance(step.trial, taken)
    return taken


# Which option [R] a detour of a kind takes, of options [R, V] bool, by the
# model's log_probs [R, V] or by pick [R], uniform numbers.
Chooser = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
_CHOOSERS: dict[str, Chooser] = {
  'random': lambda options, _, pick: boundaries.choice(options, pick),
  'adversarial': lambda options, log_probs, _: np.where(
    options, log_probs, np.inf
  ).argmin(-1),
  # Options of probability zero still come before what is no option.
  'second': lambda options, log_probs, _: np.where(
    options, np.maximum(log_probs, -1e30), -np.inf
  ).argmax(-1),
}
# Kinds of detour, by variant, that leave out the model's own choice.
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
