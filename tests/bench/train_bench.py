"""Training speed beside PyTorch's published way, and start-up times.

The data are shortest paths of Manhattan. 'useful' tokens are targets that are
no pads; both sides get the same sequences, model shape, optimizer, threads.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.bench import harness

THREADS = 2
ROOT = pathlib.Path(__file__).resolve().parents[2]
SEQUENCES = 20_000


def _torch() -> Any:
  # Idle PyTorch threads would spin through the turns of the other side, in this
  # same process; its own speed is the same either way.
  os.environ.setdefault('OMP_WAIT_POLICY', 'passive')
  import torch

  torch.set_num_threads(THREADS)
  return torch


def _gpt2(torch: Any, layers: int, width: int, heads: int, size: int) -> Any:
  """GPT-2 in plain modules: pre-norm, GELU, learned positions, tied head."""
  nn = torch.nn

  class Block(nn.Module):
    def __init__(self) -> None:
      super().__init__()
      self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
      self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
      self.up = nn.Linear(width, 4 * width)
      self.down = nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
      batch, length, _ = x.shape
      qkv = self.qkv(self.norm1(x)).view(batch, length, 3, heads, -1)
      q, k, v = qkv.permute(2, 0, 3, 1, 4)
      y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
      x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
      y = nn.functional.gelu(self.up(self.norm2(x)), approximate='tanh')
      return x + self.down(y)

  class Network(nn.Module):
    def __init__(self) -> None:
      super().__init__()
      self.tokens = nn.Embedding(size, width)
      self.places = nn.Embedding(1024, width)
      self.blocks = nn.ModuleList(Block() for _ in range(layers))
      self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Any) -> Any:
      x = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
      for block in self.blocks:
        x = block(x)
      return self.norm(x) @ self.tokens.weight.T

  return Network()


def _torch_step(torch: Any, model: Any) -> Callable[..., None]:
  """One update on a padded batch; pads are computed and counted."""
  optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

  def step(tokens: np.ndarray, lengths: np.ndarray) -> None:
    del lengths
    tokens = torch.from_numpy(tokens).long()
    logits = model(tokens[:, :-1])
    loss = torch.nn.functional.cross_entropy(
      logits.flatten(0, 1), tokens[:, 1:].flatten()
    )
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()

  return step


def _our_step(
  world: Any, model: str, out: str, batch: int, optimizer: str = 'auto'
) -> Any:
  """(step, trainer): one update on a batch from the host."""
  import jax

  from wm.core import registry
  from wm.training import loop, run_log, setup, state

  trainer = loop.Trainer(
    loop.Training(batch=batch, mesh_data=1, optimizer=optimizer),
    world,
    registry.make('model', model),
    setup.open_data(pathlib.Path(out), world),
  )
  held = [
    state.create(trainer.spec, 0, trainer.optimizer, trainer.abstract),
    run_log.fresh()['step'],
  ]

  def step(tokens: np.ndarray, lengths: np.ndarray) -> None:
    placed = loop.place_batch(trainer.mesh, tokens, lengths)
    held[0], report = trainer.train_step(held[0], np.int32(held[1]), *placed)
    held[1] += 1
    jax.block_until_ready(report)

  return step, trainer


def _rate(
  step: Callable[..., None], batches: list[tuple[np.ndarray, np.ndarray]]
) -> Iterator[tuple[float, float, float]]:
  """(useful tokens, seconds, CPU seconds) of each batch."""
  for tokens, lengths in batches:
    start, cpu = time.perf_counter(), time.process_time()
    step(tokens, lengths)
    seconds = time.perf_counter() - start
    yield float((lengths - 1).sum()), seconds, time.process_time() - cpu


def _compare(
  layers: int, width: int, heads: int, batch: int, steps: int
) -> Iterator[harness.Line]:
  torch = _torch()
  from wm.data import batches as batches_lib
  from wm.data import sampling
  from wm.options.calls import Sampling

  world = harness.manhattan_world('shortest')
  with tempfile.TemporaryDirectory() as out:
    sampling.make_dataset(
      world, out, Sampling(num=SEQUENCES, num_heldout=100, seed=0)
    )
    model = f'transformer(layers={layers}, width={width}, heads={heads})'
    ours, trainer = _our_step(world, model, out, batch)
    published = batches_lib.Batches(
      trainer.batches.store, batch, 0, 'random', 1
    )
    network = _gpt2(torch, layers, width, heads, len(world.vocab))
    theirs = _torch_step(torch, network)
    every = [trainer.batches.at(step) for step in range(batches_lib.WINDOW)]
    every = [(t[:, : world.max_len], n) for t, n in every]
    shapes = {tokens.shape: (tokens, n) for tokens, n in every}
    start = time.perf_counter()
    for tokens, lengths in shapes.values():
      ours(tokens, lengths)
    compiled = time.perf_counter() - start
    theirs(*published.at(0))
    # A window is sorted by length and shuffled: any stretch is a fair sample
    # of it only as a whole, so steps are spread over it by length.
    every.sort(key=lambda pair: pair[0].shape[1])
    chosen = [every[i * len(every) // steps] for i in range(steps)]
    sums = np.zeros(6)
    pairs = zip(
      _rate(ours, chosen),
      _rate(theirs, [published.at(step) for step in range(steps)]),
      strict=True,
    )
    for first, other in pairs:  # In turn, so that both see the same machine.
      sums += (*first, *other)
  ours_rate, theirs_rate = sums[0] / sums[1], sums[3] / sums[4]
  by_cpu = (sums[0] / sums[2]) / (sums[3] / sums[5])
  yield harness.Line(
    name=f'training {layers} x {width}, batch {batch}, Manhattan shortest',
    value=ours_rate,
    unit='useful tokens/s',
    baseline=(
      f'PyTorch {torch.__version__}, random batches padded to the longest, '
      f'{THREADS} threads: {theirs_rate:.0f} useful tokens/s (ratio '
      f'by CPU time {by_cpu:.2f})'
    ),
    ratio=ours_rate / theirs_rate,
    compile_s=compiled,
    target='ratio >= 1.5',
  )


def bench_train_small() -> Iterator[harness.Line]:
  """4 x 128."""
  return _compare(4, 128, 4, batch=64, steps=32)


def bench_train_paper() -> Iterator[harness.Line]:
  """12 x 768, the paper's 89 M parameters."""
  return _compare(12, 768, 12, batch=8, steps=12)


def bench_train_default() -> Iterator[harness.Line]:
  """What users run, which is Muon, beside AdamW alone; no PyTorch is needed."""
  from wm.core import registry
  from wm.data import batches as batches_lib
  from wm.data import sampling
  from wm.options.calls import Sampling

  world = registry.make('world', 'maps()')
  with tempfile.TemporaryDirectory() as out:
    sampling.make_dataset(world, out, Sampling(num=SEQUENCES, num_heldout=100))
    for model in ('transformer()', 'transformer(width=128)'):
      steps = [
        _our_step(world, model, out, 64, optimizer)
        for optimizer in ('auto', 'adamw')
      ]
      batches = steps[0][1].batches
      every = [batches.at(step) for step in range(batches_lib.WINDOW)]
      start = time.perf_counter()
      for step, _ in steps:
        for batch in {
          tokens.shape: (tokens, n) for tokens, n in every
        }.values():
          step(*batch)
      compiled = time.perf_counter() - start
      rates = [_rate(step, every) for step, _ in steps]
      # In turn, so that both see the same machine.
      sums = np.array([*zip(*rates, strict=True)]).sum(0)
      (_, seconds, cpu), (_, adamw_seconds, adamw_cpu) = sums
      yield harness.Line(
        name=f'training {model} as by default, batch 64, maps()',
        value=float(1e3 * seconds / len(every)),
        unit='ms a step',
        baseline=f'AdamW alone (ratio by CPU time {adamw_cpu / cpu:.2f})',
        ratio=float(adamw_seconds / seconds),
        compile_s=compiled,
        target='ratio >= 0.7',
      )


def _run(arguments: list[str], cache: str) -> tuple[float, str]:
  """Seconds and output of a binary."""
  start = time.perf_counter()
  done = subprocess.run(
    [sys.executable, str(ROOT / 'launch' / arguments[0]), *arguments[1:]],
    env={**os.environ, 'XDG_CACHE_HOME': cache},
    stdout=subprocess.PIPE,
    stderr=subprocess.DEVNULL,
    text=True,
    check=True,
  )
  return time.perf_counter() - start, done.stdout


def bench_train_start() -> Iterator[harness.Line]:
  """--help, and the time to the first step, cold and with compiled programs."""
  with tempfile.TemporaryDirectory() as out:
    seconds = min(_run(['train.py', '--help'], out)[0] for _ in range(3))
    yield harness.Line('train.py --help', seconds, 's', target='under 1.5 s')
    first, again = (_one_step(out, name) for name in ('cold', 'again'))
    yield harness.Line(
      'train.py of one step, evaluation and checkpoint, second run',
      again,
      's',
      f'first run, {first:.1f} s',
      first / again,
      compile_s=max(first - again, 0.0),
      target='under 8 s',
    )


def _one_step(out: str, name: str) -> float:
  """Seconds of a run of one step, with its evaluation and checkpoint."""
  where = [
    f'--out={out}/{name}',
    '--world=maps()',
    '--model=transformer(layers=4, width=128)',
  ]
  _run(['sample.py', *where, '--num=2000', '--num_heldout=1'], out)
  arguments = ['train.py', *where, '--steps=1']
  return _run(arguments, out)[0]
