"""Whole continuations as questions: is this one valid after that prefix?

Vafa et al. 2024, section 4.2: closed language models give answers and no
probabilities; the world draws the continuations that they are asked about.
"""

from __future__ import annotations

import numpy as np

from wm import core
from wm.core import accept as rules
from wm.evaluation import engine

# Words of a uniform number: which kind a suffix is, and its tokens.
KIND, TOKEN = 1, 2


def suffixes(
  world: core.World,
  states: np.ndarray,
  room: np.ndarray,
  *,
  num: int,
  longest: int,
  seeds: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
  """Continuations that the world draws for states [R, W], M = num each.

  Half of them, by chance, are uniform over all tokens, whatever is legal; the
  others take each token uniform over the legal ones, and stop where there are
  none (Vafa et al. 2024, section 4.2, one token).

  Args:
    world: whose tokens.
    states: [R, W].
    room: [R] most tokens of a continuation, at most `longest` of them.
    num: M.
    longest: K.
    seeds: [R] uint64; row r depends on seeds[r] alone.

  Returns:
    tokens: [R, M, K] int32, padded with PAD.
    lengths: [R, M] int32.
  """
  seeds = np.repeat(np.asarray(seeds, np.uint64), num)
  branch = np.tile(np.arange(num), len(states))
  room = np.repeat(np.minimum(room, longest), num)
  states = np.repeat(states, num, axis=0)
  anything = core.uniforms(seeds, branch, KIND) < 0.5
  tokens = np.zeros((len(branch), longest), np.int32)
  lengths = np.zeros(len(branch), np.int32)
  for k in range(longest):
    legal = world.legal(states)
    legal[:, core.PAD] = False
    # A first token there must be, or there is nothing to ask.
    legal[anything | ((k == 0) & ~legal.any(-1)), 1:] = True
    mass = np.where(legal, np.float32(0), np.float32(-np.inf))
    token = rules.epsilon(0.0).draw(
      mass, core.uniforms(seeds, branch, TOKEN, k)
    )
    going = (lengths == k) & (k < room) & (token != core.DEAD)
    tokens[going, k] = token[going]
    lengths += going
    states = world.advance(states, np.maximum(token, core.PAD))
  return tokens.reshape(-1, num, longest), lengths.reshape(-1, num)


def answers(
  predictor: core.Predictor,
  tokens: np.ndarray,
  lengths: np.ndarray,
  suffixes: np.ndarray,
  suffix_lengths: np.ndarray,
  accept: rules.Accept,
  batch: int = engine.BATCH,
) -> np.ndarray:
  """[T, P, M] int8: is each suffix in the model's language after each prefix?

  core.YES, NO, or NO_ANSWER: none was given, or there is no suffix (of
  length 0). A predictor that only accepts is asked about whole suffixes, any
  other one token by token.

  tokens: [T, P, L], lengths: [T, P], suffixes: [T, M, K] int32,
  suffix_lengths: [T, M].
  """
  shape = (*lengths.shape, suffixes.shape[1])
  each = np.repeat(np.arange(shape[0]), shape[1])
  tokens, lengths = tokens.reshape(-1, tokens.shape[-1]), lengths.reshape(-1)
  suffixes, sizes = suffixes[each], suffix_lengths[each]
  found = np.full(sizes.shape, core.NO_ANSWER, np.int8)
  if isinstance(predictor, core.AnswersOnly):
    row, place = np.nonzero(sizes)
    found[row, place] = predictor.answers(
      core.histories(tokens[row], lengths[row]),
      core.histories(suffixes[row, place], sizes[row, place]),
    )
    return found.reshape(shape)
  steps = engine.forced(
    predictor,
    tokens[:, None],
    lengths[:, None],
    suffixes,
    sizes,
    accept,
    batch,
  )[:, 0]
  return np.where(sizes > 0, steps == sizes, found).reshape(shape)


def answered(answers: np.ndarray) -> np.ndarray:
  """[T, M] bool: was there an answer after both prefixes? [T, 2, M] int8."""
  return (answers != core.NO_ANSWER).all(1)


def disagree(answers: np.ndarray) -> np.ndarray:
  """[T, M] bool: yes after one prefix, no after the other; [T, 2, M] int8."""
  return answered(answers) & (answers[:, 0] != answers[:, 1])


def count_silence(
  counts: dict[str, int], answers: np.ndarray, lengths: np.ndarray
) -> None:
  """Adds questions without an answer to counts['no_answer'].

  answers: [T, 2, M] int8 about suffixes of lengths [T, M]; 0 is no question.
  """
  silent = (answers == core.NO_ANSWER) & (lengths[:, None] > 0)
  if silent.any():
    counts['no_answer'] = counts.get('no_answer', 0) + int(silent.sum())


def told(
  predictor: core.AnswersOnly,
  tokens: np.ndarray,
  lengths: np.ndarray,
  elements: core.Boundary,
  counts: dict[str, int],
) -> tuple[core.Boundary, np.ndarray]:
  """Elements that were answered after both prefixes, and the answers to them.

  tokens: [T, 2, L], lengths: [T, 2]; elements: of these T pairs; counts: gets
  the questions without an answer.

  Returns:
    elements: the answered ones of each pair.
    wrong_at: [S] int32 over these: 0 where the answers were yes and no, as they
      should be, else the place of the last token, which settles a suffix.
  """
  trial, length = elements.pairs, elements.lengths
  asked = core.histories(elements.tokens, length)
  answers = np.stack(
    [
      predictor.answers(
        core.histories(tokens[trial, side], lengths[trial, side]), asked
      )
      for side in range(2)
    ],
    axis=-1,
  )
  count_silence(counts, answers[..., None], length[:, None])
  heard = answered(answers[..., None])[:, 0]
  right = (answers == (core.YES, core.NO)).all(1)
  return elements.take(heard), np.where(right, 0, length)[heard]
