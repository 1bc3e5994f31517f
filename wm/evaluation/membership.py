"""Membership queries about continuations, and accepted sets of next tokens.

Membership queries ask whether a continuation is valid after a prefix (Vafa et
al. 2024, section 4.2). Closed language models answer them without
probabilities; the world then draws the continuations. Code that treats a model
that only answers differently is all in this module. `positions` compares the
accepted next tokens with the legal ones (section 3.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import accept as rules
from wm.core import basics, registry
from wm.evaluation import boundaries, context, engine
from wm.evaluation.context import Trials
from wm.runtime import progress

# Hash words of uniform numbers for the kind of a suffix, and for its tokens.
KIND, TOKEN = 1, 2
# Seed of the sequences that thresholds are calibrated on, and most pairs of a
# position and a token.
CALIBRATION, _PAIRS = 2**31 - 1, 1 << 24
# Quantities of `set_scores`.
SETS = 'set_precision', 'set_recall', 'exact_set'


class AcceptMetric(core.Metric):
  """A metric of the tokens that a model accepts by a rule."""

  accept: str

  def __post_init__(self) -> None:
    super().__post_init__()
    registry.make('accept', self.accept)

  def rule(self, predictor: core.Predictor, world: core.World) -> rules.Accept:
    """The rule for this model; see `resolved` and `rule_for`."""
    return rule_for(predictor, resolved(self.accept, predictor, world))


def rule_for(predictor: core.Predictor, accept: rules.Accept) -> rules.Accept:
  """The metric's acceptance rule; for a QueryModel: probability above 0."""
  only = isinstance(predictor, core.QueryModel)
  return rules.epsilon(0.0) if only else accept


def resolved(
  spec: str, predictor: core.Predictor, world: core.World
) -> rules.Accept:
  """The rule of a spec; `calibrated` is replaced by the model's epsilon."""
  rule = registry.make('accept', spec)
  if not isinstance(rule, rules.calibrated):
    return rule
  if isinstance(predictor, core.QueryModel):
    return rules.epsilon(0.0)
  return rules.epsilon(_best_threshold(rule.num, predictor, world))


def threshold(
  metric: core.Metric, predictor: core.TokenReader, world: core.World
) -> dict[str, float]:
  """{'epsilon': the calibrated threshold} of a metric that takes one."""
  spec = str(vars(metric).get('accept', ''))
  if not spec.startswith('calibrated') or not isinstance(
    predictor, core.Predictor
  ):
    return {}
  rule = resolved(spec, predictor, world)
  assert isinstance(rule, rules.epsilon)
  return {'epsilon': rule.threshold}


def _best_threshold(
  num: int, predictor: core.Predictor, world: core.World
) -> float:
  """Probability above which accepted tokens are most like the legal ones."""
  sequences = world.sample(num, CALIBRATION, split='train')
  log_probs, legal, room = [], [], _PAIRS
  for position in positions(
    predictor, world, sequences, prompt_end(world, sequences)
  ):
    log_probs.append(np.asarray(position.log_probs[:, 1:]).ravel())
    legal.append(position.legal[:, 1:].ravel())
    room -= legal[-1].size
    if room < 0:
      break
  if not legal:
    raise core.InputError(
      f'calibrated(num={num}): {registry.spec(world)} has no position to '
      'calibrate on'
    )
  values, hits = np.concatenate(log_probs), np.concatenate(legal)
  order = np.argsort(-values, kind='stable')
  values, hits = values[order], hits[order]
  # F1 if the first n tokens are accepted; ties are accepted together.
  f1 = 2 * np.cumsum(hits) / (np.arange(1, len(hits) + 1) + hits.sum())
  lower = np.append(values[1:], -np.inf)
  best = int(np.where(lower < values, f1, -1).argmax())
  if lower[best] == -np.inf:
    return 0.0
  return float(np.exp((values[best].astype(np.float64) + lower[best]) / 2))


def fits(predictor: core.Predictor, lengths: np.ndarray) -> np.ndarray:
  """[N] bool: does the model read sequences of these lengths [N]?

  A model that only answers has no limit.
  """
  if isinstance(predictor, core.QueryModel):
    return np.ones(len(lengths), bool)
  return lengths <= predictor.max_len


def silent(predictor: core.Predictor, log_probs: np.ndarray) -> np.ndarray:
  """[R] bool: did a model that only answers give NaN, no answer?

  log_probs: [R, V]. NaN from another predictor is an error, not silence.
  """
  if not isinstance(predictor, core.QueryModel):
    return np.zeros(len(log_probs), bool)
  return np.isnan(log_probs).any(-1)


def last_by_rows(
  predictor: core.Predictor, tokens: np.ndarray, lengths: np.ndarray
) -> Iterator[tuple[slice, np.ndarray]]:
  """Yields log-probabilities after the last token of rows, in chunks of rows.

  A predictor that only answers is asked only there; other positions are -inf.
  """
  if not isinstance(predictor, core.QueryModel):
    yield from core.predictor.log_probs_by_rows(predictor, tokens, lengths)
    return
  for rows in core.predictor.chunks(
    len(tokens), tokens.shape[1] * predictor.vocab_size
  ):
    sizes = np.asarray(lengths[rows])
    shape = len(sizes), int(sizes.max(initial=1)), predictor.vocab_size
    # Only the last position is asked about, as each question costs a call.
    log_probs = np.full(shape, -np.inf, np.float32)
    last = predictor.session(tokens[rows, : shape[1]], sizes, 1).log_probs()
    log_probs[np.arange(len(sizes)), sizes - 1] = last[:, 0]
    yield rows, log_probs


def suffixes(
  world: core.World,
  states: np.ndarray,
  room: np.ndarray,
  *,
  num: int,
  longest: int,
  seeds: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
  """Draws M = num continuations of each state [R, W] from the world.

  With probability 1/2 the tokens of a continuation are uniform over all tokens;
  otherwise each is uniform over the legal tokens, and the continuation stops
  where there are none (Vafa et al. 2024, section 4.2, one token). A world that
  can forecast gives the tokens that follow instead.

  Args:
    world: world that the tokens are of.
    states: [R, W].
    room: [R] maximum tokens of a continuation, besides `longest`.
    num: continuations of each state, M.
    longest: maximum tokens of a continuation, K.
    seeds: [R] uint64; row r depends on seeds[r] alone.

  Returns:
    tokens: [R, M, K] int32, padded with PAD.
    lengths: [R, M] int32.
  """
  # [R] -> [R * M] rows, all suffixes of a state one after another.
  seeds = np.repeat(np.asarray(seeds, np.uint64), num)
  branch = np.tile(np.arange(num), len(states))
  room = np.repeat(np.minimum(room, longest), num)
  states = np.repeat(states, num, axis=0)
  # All suffixes are drawn side by side, as rows of one batch [R * M].
  anything = basics.uniforms(seeds, branch, KIND) < 0.5
  tokens = np.zeros((len(branch), longest), np.int32)
  lengths = np.zeros(len(branch), np.int32)
  forecast = None
  if core.can(world, core.Latent.forecast):
    forecast = world.forecast(states, longest).tokens
  for k in range(longest):
    legal = world.legal(states)
    if forecast is not None:
      legal &= np.arange(legal.shape[1]) == forecast[:, k, None]
    # A suffix cannot contain padding.
    legal[:, core.PAD] = False
    # A suffix needs a first token.
    legal[anything | ((k == 0) & ~legal.any(-1)), 1:] = True
    # Equal log-probabilities: a uniform draw among them.
    mass = np.where(legal, np.float32(0), np.float32(-np.inf))
    token = rules.epsilon(0.0).draw(
      mass, basics.uniforms(seeds, branch, TOKEN, k)
    )
    # Only suffixes with k tokens so far continue; the others have ended.
    going = (lengths == k) & (k < room) & (token != core.DEAD)
    tokens[going, k] = token[going]
    lengths += going
    # An illegal suffix leaves a dead state, where no token is legal.
    states = world.advance(states, np.maximum(token, core.PAD))
  return tokens.reshape(-1, num, longest), lengths.reshape(-1, num)


def answers(
  predictor: core.Predictor,
  tokens: np.ndarray,
  lengths: np.ndarray,
  suffixes: np.ndarray,
  suffix_lengths: np.ndarray,
  accept: rules.Accept,
  trials: np.ndarray | None = None,
) -> np.ndarray:
  """Asks whether the model accepts each suffix after each prefix.

  A predictor that only answers is asked about whole suffixes, any other
  predictor token by token.

  Args:
    predictor: model to ask.
    tokens: [T, P, L] int32 prefixes.
    lengths: [T, P].
    suffixes: [T, M, K] int32.
    suffix_lengths: [T, M]; 0 is no suffix.
    accept: rule by which a token is accepted.
    trials: [T] numbers of the trials, for plans of questions; None: the rows.

  Returns:
    [T, P, M] int8: core.YES, NO, or NO_ANSWER without an answer or a suffix.
  """
  shape = (*lengths.shape, suffixes.shape[1])
  # One row for each prefix: [T, P] -> [T * P], with its trial's suffixes.
  each = np.repeat(np.arange(shape[0]), shape[1])
  tokens, lengths = tokens.reshape(-1, tokens.shape[-1]), lengths.reshape(-1)
  suffixes, sizes = suffixes[each], suffix_lengths[each]
  replies = np.full(sizes.shape, core.NO_ANSWER, np.int8)
  if isinstance(predictor, core.QueryModel):
    row, place = np.nonzero(sizes)
    asked = (
      core.predictor.histories(tokens[row], lengths[row]),
      core.predictor.histories(suffixes[row, place], sizes[row, place]),
    )
    # A question's trial is its cluster when answers themselves are scored.
    number = each if trials is None else trials[each]
    replies[row, place] = predictor.answers(*asked, number[row].tolist())
    return replies.reshape(shape)
  steps = engine.teacher_force(
    predictor, tokens[:, None], lengths[:, None], suffixes, sizes, accept
  )[:, 0]
  # The model accepts a suffix if it accepts all of its tokens.
  return np.where(sizes > 0, steps == sizes, replies).reshape(shape)


def ask_pairs(
  trials: Trials,
  suffixes: np.ndarray,
  suffix_lengths: np.ndarray,
  *,
  decide: bool,
) -> np.ndarray:
  """[R, 2, M] int8 answers about suffixes [R, M, K] after both prefixes.

  Questions without an answer are added to the trials' counts.

  suffix_lengths: [R, M].
  decide: a trial is decided at its first disagreement. A predictor that only
    answers, whose answers cost, is then asked about one suffix at a time and
    not about decided trials; their other suffixes have no answer.
  """
  num = suffixes.shape[1]
  replies = np.full((len(suffixes), 2, num), core.NO_ANSWER)
  # With costly answers, one suffix at a time avoids questions about decided
  # trials.
  single = decide and isinstance(trials.predictor, core.QueryModel)
  width = 1 if single else num
  # A prefix that fills the model leaves no room for a suffix.
  left = np.flatnonzero(trials.room > 0)
  for start in range(0, num, width):
    columns = slice(start, start + width)
    got = replies[left, :, columns] = answers(
      trials.predictor,
      trials.tokens[left],
      trials.lengths[left],
      suffixes[left, columns],
      suffix_lengths[left, columns],
      trials.accept,
      trials.numbers[left],
    )
    count_unanswered(trials.prefixes.counts, got, suffix_lengths[left, columns])
    if single:
      left = left[~disagree(replies[left]).any(1)]
  return replies


def answered(answers: np.ndarray) -> np.ndarray:
  """[T, M] bool: was there an answer after both prefixes? [T, 2, M] int8."""
  return (answers != core.NO_ANSWER).all(1)


def disagree(answers: np.ndarray) -> np.ndarray:
  """[T, M] bool: yes after one prefix, no after the other; [T, 2, M] int8."""
  return answered(answers) & (answers[:, 0] != answers[:, 1])


def count_unanswered(
  counts: dict[str, int], answers: np.ndarray, lengths: np.ndarray
) -> None:
  """Adds questions without an answer to counts['no_answer'].

  answers: [T, 2, M] int8 about suffixes of lengths [T, M]; 0 is no question.
  """
  silent = (answers == core.NO_ANSWER) & (lengths[:, None] > 0)
  context.count(counts, 'no_answer', silent)


def divergence(
  trials: Trials, elements: core.Boundary
) -> tuple[core.Boundary, np.ndarray]:
  """Finds the tokens at which a model fails on the world's boundaries.

  elements: suffixes of the R pairs that are run.

  Returns:
    elements: suffixes that the model answered after both prefixes.
    wrong_at: [S] int32 for these: 0 if the model accepts the suffix after the
      first prefix and not after the second; else the position, from 1, of its
      first wrong token. For a model that only answers this is the last token.
  """
  if not isinstance(trials.predictor, core.QueryModel):
    return elements, boundaries.world_divergence(trials, elements)
  pair, length = elements.pair_ids, elements.lengths
  # Each element is a trial with one suffix: [S, 2, 1].
  replies = answers(
    trials.predictor,
    trials.tokens[pair],
    trials.lengths[pair],
    elements.tokens[:, None],
    length[:, None],
    trials.accept,
    trials=trials.numbers[pair],
  )
  count_unanswered(trials.prefixes.counts, replies, length[:, None])
  # [S]: an element without both answers is left out.
  heard = answered(replies)[:, 0]
  # An element of the boundary is legal after the first prefix only.
  right = (replies[..., 0] == (core.YES, core.NO)).all(1)
  return elements.take(heard), np.where(right, 0, length)[heard]


class Answers(NamedTuple):
  """The tokens that a model accepts after Q prefixes.

  Attributes:
    accepted: [Q, V] bool; False where the model was not asked.
    probs: [Q, V] float64 probabilities; 0 where the model was not asked.
    reason: [Q] str, '' where the model was asked and answered.
  """

  accepted: np.ndarray
  probs: np.ndarray
  reason: np.ndarray


def accepted_after(
  predictor: core.Predictor,
  tokens: np.ndarray,
  lengths: np.ndarray,
  rule: rules.Accept,
  reason: np.ndarray,
) -> Answers:
  """The next tokens that a model accepts after each prefix.

  Args:
    predictor: model to ask.
    tokens: [Q, L] int32 prefixes.
    lengths: [Q].
    rule: by which tokens are accepted.
    reason: [Q] str, '' for the prefixes to ask about.
  """
  reason = reason.astype('<U24')
  long = ~fits(predictor, lengths)
  reason[long & (reason == '')] = 'longer_than_model'
  accepted = np.zeros((len(tokens), predictor.vocab_size), bool)
  probs = np.zeros(accepted.shape)
  left = np.flatnonzero(reason == '')
  # Rows of a chunk are padded to its longest.
  left = left[np.argsort(lengths[left], kind='stable')]
  progress.report(0, len(left), 'questions')
  for part, log_probs in last_by_rows(predictor, tokens[left], lengths[left]):
    rows = left[part]
    last = np.asarray(log_probs)[np.arange(len(rows)), lengths[rows] - 1]
    quiet = silent(predictor, last)
    reason[rows[quiet]] = 'no_answer'
    rows, last = rows[~quiet], last[~quiet]
    accepted[rows] = np.asarray(rule.mask(last))
    # Sums of float32 could exceed 1.
    probs[rows] = np.exp(last.astype(np.float64))
    progress.report(part.stop, len(left))
  return Answers(accepted, probs, reason)


class JudgedPositions(NamedTuple):
  """The position after `length` tokens of R sequences, to be judged.

  Attributes:
    rows: [R] indices of the sequences.
    length: number of tokens before the position.
    states: [R, W] states of the world there.
    legal: [R, V] bool, at least one token in each row.
    log_probs: [R, V] the model's log-probabilities, in nats.
    silent: [S] sequences without an answer of a predictor that only answers;
      they are not among `rows`.
  """

  rows: np.ndarray
  length: int
  states: np.ndarray
  legal: np.ndarray
  log_probs: np.ndarray
  silent: np.ndarray


def prompt_end(world: core.World, sequences: core.Sequences) -> np.ndarray:
  """[N] index of the last token before the first judged one, as in the paper.

  It is the last token of the prompt; without a prompt, the first token.
  """
  # Models predict nothing before their first token, so it is given even in
  # worlds without a prompt.
  return np.full(len(sequences), max(world.prompt_len, 1) - 1)


def positions(
  predictor: core.Predictor,
  world: core.World,
  sequences: core.Sequences,
  first: np.ndarray,
  last_only: bool = False,
) -> Iterator[JudgedPositions]:
  """Yields the judged positions of sequences, from one run of the model.

  Positions without a legal token are left out: the world is over. So is the
  position after a sequence of the world's greatest length, where sequences stop
  regardless of legality, and so are sequences that are too long for the
  predictor; see `fits`.

  Args:
    predictor: model to judge.
    world: world of the sequences.
    sequences: N legal sequences.
    first: [N] index of the last token before the first position.
    last_only: judge only the position after the last token.
  """
  read = last_by_rows if last_only else core.predictor.log_probs_by_rows
  fitting = np.flatnonzero(fits(predictor, sequences.lengths))
  sequences = sequences.take(fitting)
  for part, chunk in read(predictor, sequences.tokens, sequences.lengths):
    # [B, W] states of all sequences of the chunk, advanced together.
    batch, number = (
      sequences.take(np.arange(part.start, part.stop)),
      fitting[part],
    )
    start, log_probs = first[number], np.asarray(chunk)
    states = world.init(len(batch))
    for t in range(log_probs.shape[1]):
      rows = np.flatnonzero(t < batch.lengths)
      states[rows] = world.advance(states[rows], batch.tokens[rows, t])
      rows = rows[t >= start[rows]]
      if not rows.size or t + 1 >= world.max_len:
        continue
      legal = world.legal(states[rows])
      # No token is legal where the world is over: the position is left out.
      going = legal.any(-1)
      quiet = going & silent(predictor, log_probs[rows, t])
      unanswered = number[rows[quiet]]
      going &= ~quiet
      rows, legal = rows[going], legal[going]
      yield JudgedPositions(
        number[rows], t + 1, states[rows], legal, log_probs[rows, t], unanswered
      )
      done = part.start + len(batch) * (t + 1) // log_probs.shape[1]
      progress.report(done, len(sequences))


def set_scores(
  mask: np.ndarray, legal: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """[R, 3] `SETS` of accepted tokens compared with legal ones [R, V].

  Also [R] bool: is any token accepted, so that precision is defined?
  """
  both, accepted = (mask & legal).sum(-1), mask.sum(-1)
  # The precision of an empty set is 0 here; callers leave such rows out.
  precision = both / np.maximum(accepted, 1)
  exact = (mask == legal).all(-1)
  recall = both / np.maximum(legal.sum(-1), 1)
  values = np.stack([precision, recall, exact], axis=-1)
  return values, accepted > 0
