"""Training on chess states beside PyTorch and beside plain matrix products.

The chess paper's smallest Transformer and SLiCE, 32 games a step, with its
dropout and 75 losses. Ours is the step of `train`: gradient, clipping, the
default optimizer or AdamW, metrics. PyTorch's is the same function (`peers`)
with AdamW, run eagerly in this process, in turns with ours. Its best setting is
looked for in the same run: one or two threads, which wait without spinning, as
spinning would cost both sides processor time. (`torch.compile` gave the same
time as eager, to 1 %.)

Processor time is compared, as the machine may have other work; FLOPs are as in
`products`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.bench import harness, models_bench, products

ROWS, ROUNDS = models_bench.GAMES, 10
TARGETS = {
  'Transformer': 'share >= 0.75 or ratio >= 1.7',
  'SLiCE b=8': 'ratio >= 2.2',
}


def _torch_steps(
  name: str, world: Any, length: int
) -> dict[str, Callable[[], None]]:
  """An update of the peer with one thread and with two."""
  # Must be set before the first import, as idle threads would spin.
  os.environ.setdefault('OMP_WAIT_POLICY', 'passive')
  import torch

  from tests.bench import peers

  kind = peers.Transformer if name == 'Transformer' else peers.Slice
  network = kind(len(world.vocab), world.heads.sizes)
  adam = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)
  games = world.sample(ROWS, 0).tokens[:, :length]
  labels = world.sequence_labels(games, np.full(ROWS, length, np.int32))
  tokens, labels = (torch.from_numpy(x).long() for x in (games, labels))

  def step(threads: int) -> None:
    torch.set_num_threads(threads)
    adam.zero_grad(set_to_none=True)
    network(tokens, labels).backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    adam.step()

  return {
    f'PyTorch {torch.__version__}, threads: {n}': lambda n=n: step(n)
    for n in (1, 2)
  }


def _compared(name: str, length: int) -> Iterator[harness.Line]:
  world = models_bench.world_of(length)
  theirs = _torch_steps(name, world, length)
  spec = models_bench.FAMILIES[name]
  ours = {
    rule: models_bench.step_of(world, spec, 'state', length, rule)
    for rule in ('auto', 'adamw')
  }
  products_of = ours['adamw'][1]
  runs = {rule: run for rule, (run, _) in ours.items()}
  runs |= {'alone': products.alone(products_of), **theirs}
  timings = harness.in_turns(runs, ROUNDS)
  spent = {name: timing.cpu for name, timing in timings.items()}
  best = min(theirs, key=spent.__getitem__)
  tokens = ROWS * length
  # Beside PyTorch's AdamW in both: Muon, the default, has more to do.
  for rule, used in (('auto', 'default optimizer'), ('adamw', 'AdamW')):
    yield harness.Line(
      name=f'training on states, {name}, width 128, {ROWS} x {length}, {used}',
      value=tokens / spent[rule],
      unit='tokens/CPU-s',
      baseline=f'{best} (the better of 1 and 2), same run: '
      f'{tokens / spent[best]:.0f} tokens/CPU-s',
      ratio=spent[best] / spent[rule],
      compile_s=timings[rule].compile_s,
      target='ratio >= 1.4' if rule == 'auto' else TARGETS[name],
      share=products.share(products_of, spent[rule], spent['alone']),
    )


def bench_states_train_128() -> Iterator[harness.Line]:
  """Games cut at 128 plies."""
  for name in TARGETS:
    yield from _compared(name, 128)


def bench_states_train_700() -> Iterator[harness.Line]:
  """Games cut at 700 plies."""
  for name in TARGETS:
    yield from _compared(name, 700)
