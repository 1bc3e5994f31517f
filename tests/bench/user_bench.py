"""A user's PyTorch module without a cache: guesses beside a session.

The module is the user's of `tests/new_user_test.py`: three layers of 96 on the
graph of a 6 x 6 grid.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import wm
from tests.bench import harness
from wm.models import user

TRIALS = 50


def _module(torch: Any, vocab: int, length: int) -> Any:
  nn = torch.nn

  class GPT(nn.Module):
    def __init__(self) -> None:
      super().__init__()
      self.tokens, self.places = (
        nn.Embedding(vocab, 96),
        nn.Embedding(length, 96),
      )
      layer = nn.TransformerEncoderLayer(
        96, 4, 384, 0.0, batch_first=True, norm_first=True
      )
      self.blocks = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
      self.head, self.passes = nn.Linear(96, vocab), 0

    def forward(self, tokens: Any) -> Any:
      self.passes += 1
      size = tokens.shape[1]
      x = self.tokens(tokens) + self.places(torch.arange(size))
      mask = nn.Transformer.generate_square_subsequent_mask(size)
      return self.head(self.blocks(x, mask=mask, is_causal=True))

  torch.manual_seed(0)
  return GPT()


def bench_user_torch() -> Iterator[harness.Line]:
  """Passes and time of compression, both ways in one process."""
  try:
    import networkx
    import torch
  except ImportError as error:
    raise harness.Skip('PyTorch and networkx are needed') from error
  with tempfile.TemporaryDirectory() as folder:
    world = wm.from_graph(networkx.grid_2d_graph(6, 6), folder, max_moves=20)
    model = _module(torch, len(world.vocab), world.max_len)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    for step in range(30):
      tokens = torch.as_tensor(world.sample(32, 100 + step).tokens).long()
      logits = model(tokens[:, :-1]).transpose(1, 2)
      loss = torch.nn.functional.cross_entropy
      loss(logits, tokens[:, 1:], ignore_index=0).backward()
      optimizer.step()
      optimizer.zero_grad()
    reader: Any = user.checked_predictor(model, world, 'GPT')

    def scored(guesses: bool) -> int:
      reader.by_sequence, before = guesses, model.passes
      wm.score(reader, f'compression(trials={TRIALS})', world)
      return int(model.passes - before)

    passes = scored(True), scored(False)
    timings = harness.in_turns(
      {'guesses': lambda: scored(True), 'session': lambda: scored(False)}, 1
    )
  name = f'compression of a 3 x 96 PyTorch module, {TRIALS} trials'
  yield harness.compared(
    name,
    timings['guesses'].cpu / TRIALS,
    'CPU-s/trial',
    *(timings['guesses'], timings['session']),
    'a session of the same module, in turn',
    target='.05 CPU-s a trial',
  )
  yield harness.Line(
    f'{name}: forward passes',
    passes[0],
    'passes',
    'a session of the same module',
    passes[1] / passes[0],
    target='at most 600 for 200 trials',
  )
