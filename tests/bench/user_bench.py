"""Models that users bring: PyTorch modules, and GPT-2 of Hugging Face.

The PyTorch module has no cache; it is the user's of `tests/new_user_test.py`:
three layers of 96 on the graph of a 6 x 6 grid, asked by guesses and by a
session. GPT-2 is scored beside the published way, which samples suffixes by
`generate` (Vafa et al. 2024).
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import wm
from tests import small
from tests.bench import harness
from wm.core import registry
from wm.models import user
from wm.runtime import compute

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
  import networkx
  import torch

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


def bench_user_cache() -> Iterator[harness.Line]:
  """A module that returns its cache, and the same module without it."""
  import torch

  from tests.models import module_cache_test as modules

  for name, spec in CITIES.items():
    world = registry.make('world', spec)
    torch.manual_seed(0)
    sizes = {'size': len(world.vocab), 'longest': world.max_len}
    model = modules.Transformer(width=96, **sizes)
    ways = {'cache': model, 'whole': modules.Alone(model)}
    readers = {way: wm.wrap(thing, world) for way, thing in ways.items()}
    calls = {
      way: functools.partial(
        wm.score, reader, f'compression(trials={TRIALS})', world
      )
      for way, reader in readers.items()
    }
    timings = harness.in_turns(calls, 1)
    yield harness.compared(
      f'compression of a PyTorch module with its own cache, {name}',
      timings['cache'].cpu / TRIALS,
      'CPU-s/trial',
      *(timings['cache'], timings['whole']),
      'the same module without its cache, in turn',
    )


EPSILON, GPT2_TRIALS = 0.01, 200
CITIES = {'16 moves': 'maps(max_moves=16)', '99 moves': 'maps()'}


def _trained(torch: Any, model: Any, world: Any, steps: int) -> None:
  """Trains a model of Hugging Face on sequences of a world."""
  optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
  for step in range(steps):
    tokens = torch.as_tensor(world.sample(64, 100 + step).tokens).long()
    logits = model(tokens[:, :-1]).logits.transpose(1, 2)
    loss = torch.nn.functional.cross_entropy
    loss(logits, tokens[:, 1:], ignore_index=0).backward()
    optimizer.step()
    optimizer.zero_grad()


def _published(
  torch: Any, model: Any, world: Any, pairs: Sequence[tuple[Any, Any]]
) -> float:
  """Compression of pairs of prefixes, as the published program measures it."""
  scores = []
  for first, second in pairs:
    tokens = torch.as_tensor(first)[None].long()
    drawn = model.generate(
      tokens,
      attention_mask=torch.ones_like(tokens),
      do_sample=True,
      epsilon_cutoff=EPSILON,
      num_return_sequences=30,
      max_length=world.max_len,
      eos_token_id=world.end,
      pad_token_id=0,
    )[:, tokens.shape[1] :]
    whole = torch.cat([torch.as_tensor(second).long().expand(30, -1), drawn], 1)
    with torch.no_grad():
      logits = model(whole[:, :-1]).logits[:, len(second) - 1 :]
    p = logits.softmax(-1).gather(-1, drawn[..., None])[..., 0]
    ended = (drawn == world.end).cumsum(1) - (drawn == world.end).long() > 0
    scores.append(bool(((p > EPSILON) | ended).all()))
  return float(np.mean(scores))


def _pairs(world: Any) -> list[tuple[Any, Any]]:
  """Two prefixes of each of some states, as trials have them."""
  states = world.sample_states(GPT2_TRIALS, 0)
  low, high = world.prefix_moves(states).T
  moves = np.random.default_rng(0).integers(low, np.maximum(high, low) + 1)
  first, second = (
    world.sample_prefixes(states, moves, np.arange(GPT2_TRIALS) + seed)
    for seed in (0, GPT2_TRIALS)
  )
  return [
    (first.tokens[k, : first.lengths[k]], second.tokens[k, : second.lengths[k]])
    for k in range(GPT2_TRIALS)
  ]


LANES, PROMPT, MOVES = 512, 50, 20  # Continuations, their prefix, and tokens.


def _torch_steps(torch: Any, layers: int, width: int, vocab: int) -> Any:
  """MOVES tokens of a PyTorch transformer, a cache for each continuation."""
  heads, places = 4, PROMPT + MOVES
  linear = torch.nn.functional.linear
  torch.manual_seed(0)
  sizes = {'qkv': (3, 1), 'out': (1, 1), 'up': (4, 1), 'down': (1, 4)}
  blocks = [
    {k: torch.randn(a * width, b * width) / 20 for k, (a, b) in sizes.items()}
    for _ in range(layers)
  ]
  embedding, head = torch.randn(vocab, width), torch.randn(vocab, width) / 20
  shape = (layers, 2, LANES, heads, places, width // heads)
  cache, norm = torch.randn(shape), (width,)

  @torch.inference_mode()
  def steps() -> None:
    tokens = torch.full((LANES,), 5)
    for place in range(PROMPT, places):
      x = embedding[tokens]
      for block, held in zip(blocks, cache, strict=True):
        flat = torch.nn.functional.layer_norm(x, norm)
        split = linear(flat, block['qkv']).view(LANES, 3, heads, -1)
        query = split[:, 0]
        held[:, :, :, place] = split[:, 1:].swapaxes(0, 1)
        seen = held[:, :, :, : place + 1]
        read = torch.nn.functional.scaled_dot_product_attention(
          query[:, :, None], seen[0], seen[1]
        )
        x = x + linear(read.reshape(LANES, width), block['out'])
        flat = linear(torch.nn.functional.layer_norm(x, norm), block['up'])
        x = x + linear(torch.nn.functional.gelu(flat), block['down'])
      logits = linear(torch.nn.functional.layer_norm(x, norm), head)
      torch.log_softmax(logits, -1)

  return steps


def bench_decoding() -> Iterator[harness.Line]:
  """512 continuations of 64 prefixes, on one thread, beside PyTorch."""
  import torch

  torch.set_num_threads(1)
  compute.fix_threads(1)
  world = registry.make('world', 'maps(rows=8, columns=8, max_moves=99)')
  sample = world.sample(500, 0)
  rows = sample.tokens[sample.lengths > PROMPT + MOVES][: LANES // 8, :PROMPT]
  for layers, width, goal in (2, 64, '2'), (4, 256, '1.6'):
    spec = f'transformer({layers=}, {width=}, heads=4)'
    predictor = registry.make('model', spec).predictor(world, 0)

    def decode(predictor: Any = predictor) -> None:
      """One session: its prefill counts, as it does in scoring."""
      session = predictor.session(rows, np.full(len(rows), PROMPT), 8)
      for _ in range(MOVES):
        session.advance(np.full((len(rows), 8), 5))
      session.log_probs()

    theirs = _torch_steps(torch, layers, width, len(world.vocab))
    timings = harness.in_turns({'ours': decode, 'theirs': theirs}, 3)
    yield harness.compared(
      f'decoding {MOVES} tokens of {LANES} lanes, {layers} x {width}',
      *(LANES * MOVES / timings['ours'].cpu, 'tokens/CPU-s'),
      *(timings['ours'], timings['theirs']),
      'PyTorch with a cache, without its prefill, same thread, in turn',
      target=f'{goal} x',
    )


def bench_user_gpt2() -> Iterator[harness.Line]:
  """A live GPT-2, 2 x 64, beside the published way on as many trials."""
  import torch
  import transformers

  for length, spec in CITIES.items():
    world: Any = wm.make('world', spec)
    torch.manual_seed(0)
    config = transformers.GPT2Config(
      vocab_size=len(world.vocab),
      n_positions=world.max_len,
      **{'n_embd': 64, 'n_layer': 2, 'n_head': 2},
      **{'bos_token_id': None, 'eos_token_id': None},
    )
    model = transformers.GPT2LMHeadModel(config)
    _trained(torch, model, world, 200)
    model.eval()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # Its fastest at this size.
    pairs = _pairs(world)
    try:
      timings = harness.in_turns(
        {
          'ours': lambda m=model, w=world: small.scored(
            m, f'compression(trials={GPT2_TRIALS})', w
          ),
          'theirs': lambda m=model, w=world, p=pairs: _published(
            torch, m, w, p
          ),
        },
        1,
      )
    finally:
      torch.set_num_threads(threads)
    yield harness.compared(
      f'compression of a live GPT-2, 2 x 64, {length}, {GPT2_TRIALS} trials',
      timings['ours'].cpu / GPT2_TRIALS,
      'CPU-s/trial',
      *(timings['ours'], timings['theirs']),
      'the published way by generate() with its cache, one thread',
      target='5 x',
    )
