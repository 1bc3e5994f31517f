"""Audit: which moves does a model get wrong, over all states of a world?

The papers sample states. A finite world needs no sample: every state that a
sequence can reach, with its task, is visited by one prefix or more, and the
tokens that the model accepts there are compared with the legal ones. Worlds of
more states are sampled; the share of states that are wrong then has an upper
bound, also where no error was seen.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import scipy

from wm import core
from wm.core import basics, capabilities
from wm.core.fields import field
from wm.evaluation import context, membership

if TYPE_CHECKING:
  import pandas as pd
  from matplotlib.figure import Figure

# Questions at least, if a world has fewer states: several prefixes a state.
QUESTIONS = 1000
# Sequences whose positions say how often the sampler visits a state.
SEQUENCES = 1000
# Draws of a prefix before a state is given up.
_ATTEMPTS = 32
# A model has the right moves if at most this share of states is wrong, by its
# upper bound, and illegal tokens have at most this probability: each of many
# may have too little to be accepted.
TOLERANCE, MASS = 0.01, 0.05
MOVES = 'moves', 'false_moves', 'missing_moves'
_BARS = 24  # Moves that a model's picture names.
# Confidence of the bound on that share.
_LEVEL = 0.95


@dataclasses.dataclass(frozen=True)
class Metric(membership.AcceptMetric):
  """Compares accepted and legal tokens in every state, or in drawn ones.

  Each quantity has a row for each prefix; prefixes of one drawn state are a
  cluster. States before the task is stated, and those in which the sequence is
  over, are left out. The counts hold the states visited; `complete`, 1 if these
  are all of the world's; the legal, false and missing tokens in all questions;
  and the moves of the world, those that the model adds and those that it lacks.
  A move is a location and a token, such as a street. The model has a move if it
  accepts the token in any state of the location.

  Side columns of `exact`: `state`, `location` (the part of the state on which
  the legal moves depend, such as an intersection), `false_tokens` (accepted and
  illegal) and `missing_tokens` (legal and refused).

  Attributes:
    states: most states visited; of a world with more, so many are drawn.
    prefixes: prefixes of each state; 0: one, or as many as make 1,000
      questions.
    accept: acceptance rule.

  Glossary:
    exact: Share of states in which the model accepts exactly the legal tokens.
      All states count alike.
    false: Share of states in which the model accepts an illegal token. On a map
      that is a street that does not exist.
    missing: Share of states in which the model refuses a legal token. On a map
      that is a street that exists.
    illegal_mass: Probability that the model puts on illegal tokens, mean over
      states. It counts tokens that are too unlikely to be accepted, too.
    exact_sampled: As exact, with other weights. States count as often as the
      world's sampler visits them.
    illegal_mass_sampled: As illegal_mass, with other weights. States count as
      often as the world's sampler visits them.
  """

  needs: ClassVar[tuple[core.Need, ...]] = (core.Predictor, core.Prefixed)
  sized_by: ClassVar[tuple[str, ...]] = ('states',)
  measures: ClassVar[Mapping[str, core.Measure]] = {
    'exact': core.Measure(1, 'accepts exactly the legal tokens'),
    'false': core.Measure(0, headline=False),
    'missing': core.Measure(0, headline=False),
    'illegal_mass': core.Measure(0, headline=False, likely=True),
    'exact_sampled': core.Measure(1, headline=False),
    'illegal_mass_sampled': core.Measure(0, headline=False, likely=True),
  }

  states: int = field(10_000, least=1)
  prefixes: int = field(0, least=0)
  accept: str = 'epsilon(0.01)'

  def __call__(
    self, predictor: core.Predictor, world: core.Prefixed, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; a row per question, a cluster per state."""
    rule = self.rule(predictor, world)
    asked = questions(world, self.states, self.prefixes, seed)
    tokens, lengths, ok = asked.prefixes
    reason = np.where(ok, '', 'no_prefix')
    answers = membership.accepted_after(
      predictor, tokens, lengths, rule, reason
    )
    return _scores(world, asked, answers)

  @staticmethod
  def draw(rows: Mapping[str, pd.DataFrame], figure: Figure) -> bool:
    """Moves that a model adds (red) or lacks (grey), the most frequent first.

    A move is a location and a token, such as a street. A bar is the share of
    the states of the location in which the model accepts a move that does not
    exist, or refuses one that does.
    """
    shown = {
      model: worst
      for model, of_model in rows.items()
      if (worst := _shown_moves(of_model))
    }
    if not shown:
      return False
    most = max(map(len, shown.values()))
    figure.set_size_inches(2.6 * len(shown), 0.5 + 0.2 * most)
    axes = figure.subplots(1, len(shown), squeeze=False, sharex=True)[0]
    for axis, (model, worst) in zip(axes, shown.items(), strict=True):
      places = np.arange(len(worst))[::-1]
      colours = ['#c33' if each.false else '0.55' for each in worst]
      axis.barh(places, [each.share for each in worst], color=colours)
      names = [f'{each.location} {each.token}' for each in worst]
      axis.set_yticks(places, [name.replace('$', r'\$') for name in names])
      axis.tick_params(labelsize=7)
      axis.set(xlim=(0, 1), ylim=(places.min() - 1, most))
      axis.set_title(model.replace('$', r'\$'), fontsize=8)
      axis.spines[['top', 'right']].set_visible(False)
    axes[0].set_xlabel('share of states', fontsize=7)
    return True


class WrongMove(NamedTuple):
  """A move that a model adds or lacks.

  Attributes:
    location: the part of the state that decides which moves are legal.
    token: the move.
    false: whether the model adds the move; else the model lacks it.
    share: share of the questions at the location that the model answers so.
  """

  location: str
  token: str
  false: bool
  share: float


def wrong_moves(columns: Mapping[str, Iterable[str]]) -> list[WrongMove]:
  """Moves that a model adds or lacks, by descending share of questions.

  columns: side columns of the measured rows of `exact`.
  """
  asked = collections.Counter(map(str, columns['location']))
  moves = [
    WrongMove(place, token, false, num / asked[place])
    for name, false in (('false_tokens', True), ('missing_tokens', False))
    for (place, token), num in context.move_counts(columns, name).items()
  ]
  return sorted(moves, key=lambda move: (-move.share, *move[:2]))


def _shown_moves(rows: pd.DataFrame) -> list[WrongMove]:
  """The moves that a picture names.

  rows: with the columns of rows.parquet, where an empty text may be missing.
  """
  rows = rows[(rows.quantity == 'exact') & (rows.reason.fillna('') == '')]
  texts = ('location', 'false_tokens', 'missing_tokens')
  columns = {x: rows[x].fillna('').astype(str).tolist() for x in texts}
  return wrong_moves(columns)[:_BARS]


class Questions(NamedTuple):
  """Q prefixes, after each of which the next tokens are judged.

  Attributes:
    states: [Q, W] states that the prefixes reach.
    prefixes: the Q prefixes; `ok` is False where none was found.
    group: [Q] int64 cluster: the drawn state, or the question itself if all
      states are visited.
    visits: [Q] float64 how often the sampler visits the state, divided among
      its prefixes; None if these are not all states of the world.
  """

  states: np.ndarray
  prefixes: core.Prefixes
  group: np.ndarray
  visits: np.ndarray | None


def questions(
  world: core.Prefixed, most: int, prefixes: int, seed: int
) -> Questions:
  """Prefixes of all states of a world, or of `most` drawn ones."""
  listed = all_states(world, most)
  if listed is None:
    states = world.sample_states(most, basics.stream(seed, context.STATES))
    states = states[~world.over(states)]
  else:
    states = listed[0]
  repeats = prefixes or -(-QUESTIONS // max(len(states), 1))
  rows = np.repeat(np.arange(len(states)), repeats)
  drawn = _prefixes(world, states[rows], seed)
  ids = world.state_id(states)
  if listed is None:
    group = np.unique(ids, return_inverse=True)[1][rows]
    return Questions(states[rows], drawn, group, None)
  # A state that no move leads to is reached by a prompt alone.
  for row in np.flatnonzero(~drawn.ok):
    path = listed[1](rows[row])
    # No sequence comes back to the first state by so many tokens.
    if len(path) < world.max_len:
      drawn.tokens[row, : len(path)] = path
      drawn.lengths[row], drawn.ok[row] = len(path), True
  # No state is drawn, so that only the prefixes of states vary.
  visits = _visits(world, ids, seed)[rows] / repeats
  return Questions(states[rows], drawn, np.arange(len(rows)), visits)


def all_states(
  world: core.Prefixed, most: int
) -> tuple[np.ndarray, Callable[[int], list[int]]] | None:
  """All states after the prompt that are not over; None if too many.

  Returns:
    states: [S, W].
    path: function from a row of these to the shortest tokens that reach it.
  """
  # A state of a map holds the task, so its number says that there are too many
  # before they are listed.
  if core.can(world, core.Prefixed.num_states) and world.num_states() > most:
    return None
  try:
    # States of the prompt and final ones come on top.
    states, delta = capabilities.enumerated(
      world, most + most // 2 + len(world.vocab)
    )
  except core.InputError:
    return None
  # States are listed breadth first: the first way to a state is a shortest.
  heads, first = np.unique(delta, return_index=True)
  came = dict(zip(heads.tolist(), first.tolist(), strict=True))
  depth = np.zeros(len(states), np.int64)
  for row in range(1, len(states)):
    depth[row] = depth[came[row] // delta.shape[1]] + 1
  # The first state counts if a sequence comes back to it.
  asked = (depth >= world.prompt_len) & (depth < world.max_len)
  asked[0] &= 0 in came
  rows = np.flatnonzero(asked & ~world.over(states))

  def path(row: int) -> list[int]:
    """Tokens from the start to a state."""
    tokens, state = list[int](), int(rows[row])
    while state or not tokens:
      state, label = divmod(came[state], delta.shape[1])
      tokens.append(label + 1)
    return tokens[::-1]

  return (states[rows], path) if len(rows) <= most else None


def _prefixes(
  world: core.Prefixed, states: np.ndarray, seed: int
) -> core.Prefixes:
  """A prefix of each state [Q, W], of a number of moves drawn uniformly."""
  least, most = world.prefix_moves(states).T.astype(np.int64)
  tokens = np.zeros((len(states), world.max_len), np.int32)
  lengths, ok = np.zeros(len(states), np.int32), np.zeros(len(states), bool)
  left = np.flatnonzero(most >= least)
  for attempt in range(_ATTEMPTS):
    if not left.size:
      break
    share = basics.uniforms(seed, context.MOVES, left, attempt)
    above = np.floor(share * (most - least + 1)[left]).astype(np.int64)
    moves = least[left] + above
    seeds = basics.hash64(seed, context.PREFIXES, left, attempt)
    got = world.sample_prefixes(states[left], moves.astype(np.int32), seeds)
    rows = left[got.ok]
    tokens[rows, : got.tokens.shape[1]] = got.tokens[got.ok]
    lengths[rows], ok[rows] = got.lengths[got.ok], True
    left = left[~got.ok]
  return core.Prefixes(tokens, lengths, ok)


def _visits(world: core.World, ids: np.ndarray, seed: int) -> np.ndarray:
  """[S] float64 positions of sampled sequences in states of these ids [S]."""
  sequences = world.sample(SEQUENCES, basics.stream(seed, context.OTHERS))
  order = np.argsort(ids)
  visits = np.zeros(len(ids))
  states = world.init(len(sequences))
  for t in range(sequences.tokens.shape[1]):
    rows = np.flatnonzero(t < sequences.lengths)
    states[rows] = world.advance(states[rows], sequences.tokens[rows, t])
    reached = world.state_id(states[rows])
    place = order[
      np.searchsorted(ids, reached, sorter=order).clip(max=len(ids) - 1)
    ]
    # States of the prompt, and final ones, are not among the ids.
    visits += np.bincount(place[ids[place] == reached], minlength=len(ids))
  return visits


def _scores(
  world: core.World, asked: Questions, answers: membership.Answers
) -> tuple[core.Scores, ...]:
  legal, accepted = world.legal(asked.states), answers.accepted
  reason, measured = answers.reason, answers.reason == ''
  false = accepted & ~legal
  missing = legal & ~accepted & measured[:, None]
  states = world.state_id(asked.states[measured])
  places = context.locations(world, asked.states)
  counts = {
    'states': len(np.unique(states)),
    'complete': int(asked.visits is not None and measured.all()),
    'legal_tokens': int(legal[measured].sum()),
    'false_tokens': int(false.sum()),
    'missing_tokens': int(missing.sum()),
    **_moves(world, places[measured], legal[measured], accepted[measured]),
  }
  values = {
    'exact': ~(false | missing).any(-1),
    'false': false.any(-1),
    'missing': missing.any(-1),
    'illegal_mass': np.where(legal, 0, answers.probs).sum(-1),
  }
  scored = functools.partial(core.scores, group=asked.group)
  rows = [
    scored(name, value, reason=reason, counts=counts)
    for name, value in values.items()
  ]
  rows[0].columns.update(
    state=capabilities.written(world, asked.states),
    location=places,
    false_tokens=context.marked_tokens(world, false),
    missing_tokens=context.marked_tokens(world, missing),
    **context.tags(world, asked.states),
  )
  if asked.visits is None:
    reason = np.where(measured, 'states_are_drawn', reason)
  return (
    *rows,
    *(
      scored(
        f'{name}_sampled', values[name], reason=reason, weight=asked.visits
      )
      for name in ('exact', 'illegal_mass')
    ),
  )


def _moves(
  world: core.World, places: np.ndarray, legal: np.ndarray, accepted: np.ndarray
) -> dict[str, int]:
  """Counts of moves, which are a location and a token, but not the end.

  A move is the model's if it is accepted in any state of the location.

  places: [Q] str; legal, accepted: [Q, V] bool.
  """
  names, place = np.unique(places, return_inverse=True)
  moves = np.zeros((2, len(names), legal.shape[1]), bool)
  np.logical_or.at(moves[0], place, legal)
  np.logical_or.at(moves[1], place, accepted)
  if world.end != core.DEAD:
    moves[:, :, world.end] = False
  true, held = moves
  return {
    'moves': int(true.sum()),
    'false_moves': int((held & ~true).sum()),
    'missing_moves': int((true & ~held).sum()),
  }


class AuditSummary(NamedTuple):
  """The result of an audit.

  Attributes:
    states: number of states visited.
    complete: whether these are all states of the world.
    questions: number of prefixes after which the model was asked.
    false, missing: share of questions with a false token, and with a missing
      one.
    most_false, most_missing: upper bounds of both shares (Clopper and Pearson
      1934, one-sided, 95 %), which hold for states not visited too.
    illegal_mass: mean probability of illegal tokens.
    moves, false_moves, missing_moves: moves of the world, those that the model
      adds, and those that it lacks; see `Metric`.
  """

  states: int
  complete: bool
  questions: int
  false: float
  missing: float
  most_false: float
  most_missing: float
  illegal_mass: float
  moves: int
  false_moves: int
  missing_moves: int

  @property
  def is_right(self) -> bool:
    """Has the model the world's moves, within TOLERANCE and MASS?"""
    wrong = max(self.most_false, self.most_missing)
    return wrong <= TOLERANCE and self.illegal_mass <= MASS

  def sentence(self, move: str = 'move') -> str:
    """The moves that the model has, in words.

    move: what the world calls a move, such as 'street'.
    """
    states = f'{"all" if self.complete else "the"} {self.states:,} states'
    states += '' if self.complete else ' that were drawn'
    mass = ''
    if self.illegal_mass > MASS:
      mass = (
        f' Illegal tokens together have probability {self.illegal_mass:.2f}.'
      )
    if not self.false and not self.missing:
      most = max(self.most_false, self.most_missing)
      return (
        f'In {states} it accepts exactly the legal tokens; at most {most:.2%} '
        f'of prefixes can differ ({self.questions:,} asked).{mass}'
      )
    false, missing = (
      f'{share:.1%} (at most {most:.1%})' if share else 'none'
      for share, most in (
        (self.false, self.most_false),
        (self.missing, self.most_missing),
      )
    )
    text = (
      f'It accepts a false token in {false} and refuses a legal one in '
      f'{missing} of {states}.'
    )
    if self.complete and self.moves:
      text += (
        f' It has {self.false_moves:,} {move}s that do not exist and lacks '
        f'{self.missing_moves:,} of {self.moves:,}.'
      )
    return text + mass


def summary(results: Mapping[str, Mapping[str, Any]]) -> AuditSummary:
  """The summary of an audit whose quantities were measured.

  results: quantity -> its entry of scores.json.
  """
  counts = results['exact']['counts']
  false, missing = results['false'], results['missing']
  # Drawn twice, a state tells little more.
  num = false['n'] if counts['complete'] else false['clusters']
  return AuditSummary(
    states=counts['states'],
    complete=bool(counts['complete']),
    questions=false['n'],
    false=false['value'],
    missing=missing['value'],
    most_false=_upper_bound(false['value'], num),
    most_missing=_upper_bound(missing['value'], num),
    illegal_mass=results['illegal_mass']['value'],
    **{name: counts[name] for name in MOVES},
  )


def _upper_bound(share: float, num: int) -> float:
  """Upper bound of a share of `num` independent questions."""
  wrong = round(share * num)
  if wrong >= num:
    return 1.0
  return float(scipy.special.betaincinv(wrong + 1, num - wrong, _LEVEL))
