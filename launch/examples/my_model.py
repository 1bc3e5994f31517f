r"""A model of your own: logits of the next token, and how it learns a task.

  python launch/score.py --world='maps()' \
    --model='user(function="launch/examples/my_model.py:model", files=())' \
    --metric='next_token()' --metric='inductive_bias()' --out=runs/mine
"""

import numpy as np

rng = np.random.default_rng(0)
embed, head = rng.normal(size=(76, 32)), rng.normal(size=(32, 76))


class Model:
  """Knows the last tokens, each half as well as the one after it."""

  def __call__(self, tokens: np.ndarray) -> np.ndarray:
    """[B, L] int32 tokens -> [B, L, V] logits of the next token."""
    return self.features(tokens) @ head

  def features(self, tokens: np.ndarray) -> np.ndarray:
    """[B, L, 32] sums of embeddings."""
    x = embed[tokens]
    for t in range(1, x.shape[1]):
      x[:, t] += x[:, t - 1] / 2
    return x

  def adapt(self, tokens: np.ndarray, places, labels: np.ndarray, task):
    """Learns labels [T, 1] at places of tokens [B, L], by least squares."""
    x, classes = self.features(tokens)[places], np.arange(task.kind.k)
    fit = np.linalg.lstsq(x, labels == classes, rcond=1e-3)[0]
    return lambda tokens, places: self.features(tokens)[places] @ fit


model = Model()
