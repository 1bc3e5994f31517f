"""Next-token test: are the model's predictions legal in the true state?

Vafa et al. 2024, section 3.1 and table 1, with stricter variants.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.core import accept, basics, capabilities
from wm.core.fields import field
from wm.evaluation import context, decoding, membership


@dataclasses.dataclass(frozen=True)
class Metric(membership.AcceptMetric):
  """Asks at each position of held-out sequences if predictions are legal.

  The positions are those of the paper: from the last token of the prompt to
  the last move, so the end token is predicted too. If sequences stop at the
  world's greatest length, the position after the last token is not judged: no
  sequence shows the next token. Each quantity is a mean over positions.
  Positions without an answer of a predictor that only answers are left out and
  counted.

  Attributes:
    num: held-out sequences, or drawn states.
    states: positions to judge: 'sequences': all positions of held-out
      sequences; 'drawn': states drawn as for compression, each after one prefix
      (the share of states in section 2.2's example).
    accept: acceptance rule of the set quantities; a predictor that only answers
      accepts all tokens of nonzero probability, whatever the rule.

  Glossary:
    validity: Share of positions where the model's most likely token is legal;
      if several are equally likely, the share of them that is. It requires one
      legal token, not all of them.
    valid_mass: Probability that the model puts on legal tokens, mean over
      positions. The rest is on tokens that the world forbids.
    set_precision: Share of the accepted tokens that are legal, over positions
      where the model accepts any. If it is low, the model allows tokens that
      the world forbids.
    set_recall: Share of the legal tokens that the model accepts. If it is low,
      the model rules out tokens that the world allows.
    exact_set: Share of positions where the accepted tokens are exactly the
      legal ones. It is the strictest of these quantities.
  """

  version: ClassVar[str] = '2'
  sized_by: ClassVar[tuple[str, ...]] = ('num',)
  measures: ClassVar[Mapping[str, core.Measure]] = {
    'validity': core.Measure(1, 'picks legal tokens only', side='choice'),
    'valid_mass': core.Measure(1, 'nothing on illegal tokens', side='mass'),
  }
  cautions: ClassVar[tuple[core.Caution, ...]] = (
    core.Caution(
      'valid_mass',
      'puts {rest} of its probability on illegal tokens',
      below=0.95,
    ),
    core.Caution(
      'set_recall',
      'accepts {value} of the legal tokens (the Bayes predictor: {best})',
      below=0.9,
      of_best=True,
    ),
  )

  num: int = field(1000, least=1)
  states: str = field('sequences', choices=('sequences', 'drawn'))
  accept: str = 'epsilon(0.01)'

  def why_not_static(self) -> str:
    """See core.Metric."""
    return ''

  def __call__(
    self, predictor: core.Predictor, world: core.World, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; a row per sequence, weighted by its positions."""
    rule = self.rule(predictor, world)
    if self.states == 'drawn':
      sequences, groups = _drawn(world, self.num, seed)
      first = sequences.lengths - 1
    else:
      sequences = world.sample(self.num, seed, split='heldout')
      groups = context.clusters(world, sequences)
      first = membership.prompt_end(world, sequences)
    num, drawn = len(sequences), self.states == 'drawn'
    judged = _JudgedSequences(
      sums=np.zeros((num, len(_QUANTITIES), 2)),
      first=np.zeros(num, np.int32),
      named=np.zeros(num, np.int32),
      states=world.init(num),
      silent=np.zeros(num, np.int64),
      fits=membership.fits(predictor, sequences.lengths),
    )
    for position in membership.positions(
      predictor, world, sequences, first, drawn
    ):
      _add(position, rule, judged)
    columns = _pictured(world, sequences, judged)
    return _scores(judged, groups, columns)


_QUANTITIES = ('validity', 'valid_mass', *membership.SETS)


def _drawn(
  world: core.World, num: int, seed: int
) -> tuple[core.Sequences, np.ndarray]:
  """Draws `num` states; returns a prefix of each that has one, and ids."""
  if not isinstance(world, core.Prefixed):
    raise core.InputError(
      f"next_token(states='drawn'): {world.name} draws no states"
    )
  states = world.sample_states(num, basics.stream(seed, context.STATES))
  least, most = world.prefix_moves(states).T
  share = basics.uniforms(seed, context.MOVES, np.arange(num))
  moves = least + np.floor(share * (most - least + 1)).astype(np.int32)
  seeds = basics.hash64(seed, context.PREFIXES, np.arange(num))
  drawn = world.sample_prefixes(states, np.minimum(moves, most), seeds)
  prefixes = core.Sequences(drawn.tokens, drawn.lengths)
  rows = np.flatnonzero(drawn.ok)
  return prefixes.take(rows), world.state_id(states[rows])


class _JudgedSequences(NamedTuple):
  """Sums and first mistakes of N sequences.

  Attributes:
    sums: [N, Q, 2] sum of each quantity over positions, and their number.
    first: [N] int32 tokens before the first mistake, a most likely token that
      is illegal; 0: none.
    named: [N] int32 that token, the lowest of several.
    states: [N, W] state in which it is illegal.
    silent: [N] int64 number of positions without an answer.
    fits: [N] bool: no longer than the predictor's `max_len`.
  """

  sums: np.ndarray
  first: np.ndarray
  named: np.ndarray
  states: np.ndarray
  silent: np.ndarray
  fits: np.ndarray


def _add(
  position: membership.JudgedPositions,
  rule: accept.Accept,
  judged: _JudgedSequences,
) -> None:
  """Adds the model's results at a position."""
  rows, length, states, legal, log_probs, silent = position
  judged.silent[silent] += 1
  values, counted = _judge(log_probs, legal, rule)
  judged.sums[rows, :, 0] += np.where(counted, values, 0)
  judged.sums[rows, :, 1] += counted
  wrong = (values[:, 0] < 1) & (judged.first[rows] == 0)
  judged.first[rows[wrong]] = length
  illegal = decoding.most_likely(log_probs[wrong]) & ~legal[wrong]
  judged.named[rows[wrong]] = illegal.argmax(-1)
  judged.states[rows[wrong]] = states[wrong]


def _pictured(
  world: core.World, sequences: core.Sequences, judged: _JudgedSequences
) -> dict[str, np.ndarray]:
  """Side columns of each sequence's first mistake.

  `prefix` holds the tokens before it, `state` the state there, `suffix` the
  predicted token, and `wrong_at` is 1. Without a mistake they hold the whole
  sequence, its last state, '' and 0.
  """
  wrong = (judged.first > 0).astype(np.int64)
  start = world.init(len(sequences))
  _, last = world.walk(start, sequences.tokens, sequences.lengths)
  states = np.where(wrong[:, None] > 0, judged.states, last)
  lengths = np.where(wrong, judged.first, sequences.lengths)
  return {
    'prefix': context.token_texts(world, sequences.tokens, lengths),
    'state': capabilities.written(world, states),
    'suffix': context.token_texts(world, judged.named[:, None], wrong),
    'wrong_at': wrong,
  }


def _judge(
  log_probs: np.ndarray, legal: np.ndarray, rule: accept.Accept
) -> tuple[np.ndarray, np.ndarray]:
  """Values and whether each counts, [R, Q], from arrays [R, V]."""
  best = decoding.most_likely(log_probs)
  # Sums of float32 could exceed 1.
  probs = np.exp(log_probs.astype(np.float64))
  mask = np.asarray(rule.mask(log_probs))
  sets, accepted = membership.set_scores(mask, legal)
  values = np.concatenate(
    [
      (legal & best).sum(-1, keepdims=True)
      / np.maximum(best.sum(-1, keepdims=True), 1),
      np.where(legal, probs, 0).sum(-1, keepdims=True),
      sets,
    ],
    axis=-1,
  )
  counted = np.ones(values.shape, bool)
  counted[:, _QUANTITIES.index('set_precision')] &= accepted
  return values, counted


def _scores(
  judged: _JudgedSequences, group: np.ndarray, pictured: dict[str, np.ndarray]
) -> tuple[core.Scores, ...]:
  sums, quantities = judged.sums, []
  unasked = np.where(judged.silent > 0, 'no_answer', 'no_position')
  unasked = np.where(judged.fits, unasked, 'longer_than_model')
  silent = int(judged.silent.sum())
  for q, quantity in enumerate(_QUANTITIES):
    total, weight = sums[:, q, 0], sums[:, q, 1]
    empty = unasked
    counts = {'positions_no_answer': silent} if silent else {}
    if quantity == 'set_precision':
      empty = np.where(sums[:, 0, 1] > 0, 'nothing_accepted', unasked)
      missing = int(sums[:, 0, 1].sum() - weight.sum())
      counts['positions_nothing_accepted'] = missing
    scores = core.scores(
      quantity,
      total / np.maximum(weight, 1),
      reason=np.where(weight > 0, '', empty),
      group=group,
      weight=weight,
      columns={'positions': weight.astype(np.int64)},
      counts=counts,
    )
    quantities.append(scores)
  quantities[0].columns.update(pictured)
  return tuple(quantities)
