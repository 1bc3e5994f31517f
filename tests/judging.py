"""Is each whole sequence in a world's language, and if not, why?"""

import numpy as np

from wm import core


def judge(world: core.World, sequences: core.Sequences) -> np.ndarray:
  """[N] str verdicts; the first failure decides (Vafa et al. 2024, section 3).

  'valid'; 'bad_header', an illegal token in the prompt; 'path_fail', another
  illegal token; 'dest_fail', an illegal end token; 'no_end';
  'tokens_after_end'.
  """
  tokens, lengths = sequences.tokens, sequences.lengths
  num = len(sequences)
  steps, states = world.walk(world.init(num), tokens, lengths)
  last = np.minimum(steps, tokens.shape[1] - 1)
  refused = tokens[np.arange(num), last]
  ended = completed(world, tokens, steps, states)
  failed = steps < lengths
  return np.select(
    [
      failed & (steps < world.prompt_len),
      failed & ended & (world.end != core.DEAD),
      failed & (refused == world.end),
      failed,
      ~ended,
    ],
    ['bad_header', 'tokens_after_end', 'dest_fail', 'path_fail', 'no_end'],
    'valid',
  )


def completed(
  world: core.World, tokens: np.ndarray, steps: np.ndarray, states: np.ndarray
) -> np.ndarray:
  """[N] bool: may sequences stop after `steps` [N] tokens, in these states?"""
  if world.end == core.DEAD:
    return world.state_id(states) != core.DEAD
  last = tokens[np.arange(len(tokens)), np.maximum(steps, 1) - 1]
  return (steps > 0) & (last == world.end)
