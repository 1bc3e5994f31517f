"""Next-token test: is what the model predicts legal in the true state?

Vafa et al. 2024, section 3.1 and table 1, with the sharper variants.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.core import accept, basics, capabilities, registry
from wm.core.fields import field
from wm.evaluation import context, membership
from wm.evaluation import support as supports


@dataclasses.dataclass(frozen=True)
class Metric(core.Metric):
  """Reads held-out sequences; asks at every place if the next token is legal.

  The positions are those of the paper: from the last token of the prompt to
  the last move, so the end token is predicted too. Of sequences that just stop
  the one after the last token counts as well, which no sequence trains: there
  alone a network with learned positions may fail. Each quantity is a mean over
  positions. Those where a predictor that only answers gives no answer are left
  out and counted.

  Attributes:
    num: held-out sequences, or drawn states.
    states: where next tokens are judged: 'sequences', all positions of held-out
      sequences; or 'drawn', states as those of compression are drawn, each
      after one prefix (the share of states in section 2.2's example).
    accept: acceptance rule of the set quantities; a predictor that only answers
      accepts what it gives any probability, whatever the rule.
    support: 'all'; or 'sampler': accepted sets are compared with the tokens
      that the sampler of the world takes, not with all that are legal, see
      wm.evaluation.support. Legal tokens that it hardly takes are not
      judged.
    support_bound: least probability, exclusive, of a supported token.

  Glossary:
    validity: Share of positions where the model's most likely token of the
      whole vocabulary is legal. It asks for one legal token, not for all of
      them.
    valid_mass: Probability that the model puts on legal tokens, mean over
      positions. What is missing to 1 is on tokens that the world forbids.
    set_precision: Share of the tokens that the model accepts that are legal,
      over positions where it accepts any. Low: it allows what the world
      forbids.
    set_recall: Share of the legal tokens that the model accepts. Low: it rules
      out what the world allows.
    exact_set: Share of positions where the accepted tokens are exactly the
      legal ones. It is the strictest of these.
  """

  sized_by: ClassVar[tuple[str, ...]] = ('num',)
  ideal: ClassVar[Mapping[str, str]] = {
    'validity': '1: picks legal tokens only',
    'valid_mass': '1: nothing on illegal tokens',
  }
  shows: ClassVar[Mapping[str, str]] = {
    'validity': 'choice',
    'valid_mass': 'mass',
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
  support: str = field('all', choices=supports.CHOICES)
  support_bound: float = field(0.01, least=0, below=1)

  def __post_init__(self) -> None:
    super().__post_init__()
    registry.make('accept', self.accept)

  def why_not_static(self) -> str:
    """See core.Metric."""
    return ''

  def __call__(
    self, predictor: core.Predictor, world: core.World, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; a row per sequence, weighted by its positions."""
    rule = membership.rule_for(predictor, registry.make('accept', self.accept))
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
    supported: Callable[[np.ndarray, int], np.ndarray] | None = None
    if self.support != 'all':
      supported = _supported(supports.Support.of(self, world, rule), sequences)
    for position in membership.positions(
      predictor, world, sequences, first, drawn
    ):
      taken = supported and supported(position.rows, position.length)
      _add(position, rule, judged, taken)
    columns = _pictured(world, sequences, judged)
    return _scores(judged, groups, columns)


_QUANTITIES = ('validity', 'valid_mass', *membership.SETS)
_SETS = slice(-len(membership.SETS), None)


def _supported(
  support: supports.Support, sequences: core.Sequences
) -> Callable[[np.ndarray, int], np.ndarray]:
  """Supported tokens [R, V] after so many tokens of rows [R] of sequences."""
  memory, _ = support.follow(sequences.tokens, sequences.lengths)
  return lambda rows, length: support.next(memory[rows, length])[0]


def _drawn(
  world: core.World, num: int, seed: int
) -> tuple[core.Sequences, np.ndarray]:
  """A prefix of each of `num` drawn states that has one, and their ids."""
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
    sums: [N, Q, 2] sum over positions, and their number, of each quantity.
    first: [N] int32 tokens before the first illegal most likely one; 0: none.
    named: [N] int32 that token.
    states: [N, W] state that it is illegal in.
    silent: [N] int64 positions where the predictor gives no answer.
    fits: [N] bool: no longer than the predictor takes.
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
  supported: np.ndarray | None,
) -> None:
  """Adds what the model says at a position.

  supported: [R, V] bool tokens that sets are compared with; None: legal ones.
  """
  rows, length, states, legal, log_probs, silent = position
  judged.silent[silent] += 1
  if supported is None:
    supported = legal
  values, counted = _judge(log_probs, legal, supported, rule)
  judged.sums[rows, :, 0] += np.where(counted, values, 0)
  judged.sums[rows, :, 1] += counted
  wrong = (values[:, 0] == 0) & (judged.first[rows] == 0)
  judged.first[rows[wrong]] = length
  judged.named[rows[wrong]] = log_probs[wrong].argmax(-1)
  judged.states[rows[wrong]] = states[wrong]


def _pictured(
  world: core.World, sequences: core.Sequences, judged: _JudgedSequences
) -> dict[str, np.ndarray]:
  """Side columns of each sequence's first mistake.

  `prefix` up to it, the `state` there, as `suffix` the token named, which is
  `wrong_at` 1. Without a mistake: the whole sequence, its last state, '' and 0.
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
  log_probs: np.ndarray,
  legal: np.ndarray,
  supported: np.ndarray,
  rule: accept.Accept,
) -> tuple[np.ndarray, np.ndarray]:
  """Values and whether each counts, [R, Q], from arrays [R, V]."""
  # The most likely token of all, by lowest id; none where nothing is possible.
  best = log_probs.argmax(-1)[:, None]
  possible = np.take_along_axis(log_probs, best, 1) > -np.inf
  # Legal tokens that are not supported are not judged.
  mask = np.asarray(rule.mask(log_probs)) & (supported | ~legal)
  sets, accepted = membership.set_scores(mask, supported)
  values = np.concatenate(
    [
      np.take_along_axis(legal, best, 1) & possible,
      np.where(legal, np.exp(log_probs), 0).sum(-1, keepdims=True),
      sets,
    ],
    axis=-1,
  )
  counted = np.ones(values.shape, bool)
  counted[:, _SETS] = np.any(supported, axis=-1, keepdims=True)
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
