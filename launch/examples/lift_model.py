r"""A model of your own whose tokens are not numbered as the world's are.

  python launch/score.py --world="automaton(file='launch/examples/lift.json')" \
    --model='user(function="launch/examples/lift_model.py:logits",
        tokens="launch/examples/lift_ids.json", files=())' \
    --metric='next_token()' --out=runs/numbered
"""

import numpy as np

# Logits of the next token by the last one, in the model's own ids.
END, OPEN, CLOSE, UP, DOWN = 7, 5, 3, 9, 12
table = np.zeros((16, 16), np.float32)
table[OPEN, CLOSE] = table[UP, DOWN] = 8
table[CLOSE, [UP, END]] = table[DOWN, [OPEN, END]] = 4


def logits(tokens: np.ndarray) -> np.ndarray:
  """[B, L] int32 tokens -> [B, L, 16] logits of the next token."""
  return table[tokens]
