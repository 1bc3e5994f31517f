"""PyTorch modules of the same functions as ours, for benchmarks.

`Transformer` and `Slice` are the networks of `models_bench.FAMILIES`, with the
heads of a world's state and the mean of their cross-entropies; `load` gives
them our weights, so that a test can compare. Each is in the form that was the
fastest of those tried (see `models_bench`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from wm.models.nn import layers

EPSILON = 1e-6


class Swiglu(nn.Module):
  """Gated perceptron."""

  def __init__(self, width: int, hidden: int) -> None:
    super().__init__()
    self.up, self.gate = nn.Linear(width, hidden), nn.Linear(width, hidden)
    self.down = nn.Linear(hidden, width)

  def forward(self, x: torch.Tensor) -> torch.Tensor:
    """[..., D] -> [..., D]."""
    return self.down(functional.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
  """Rotary attention and SwiGLU, each after an RMS norm, with dropout."""

  def __init__(self, width: int, heads: int, rate: float) -> None:
    super().__init__()
    self.heads, self.rate = heads, rate
    self.before_attention = nn.RMSNorm(width, EPSILON)
    self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
    self.before_mlp = nn.RMSNorm(width, EPSILON)
    self.mlp = Swiglu(width, 4 * width)
    self.drop = nn.Dropout(rate)

  def forward(
    self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
  ) -> torch.Tensor:
    """[B, L, D] -> [B, L, D]."""
    batch, length, width = x.shape
    qkv = self.qkv(self.before_attention(x))
    qkv = qkv.view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
    q, k = (z * cos + turned(z) * sin for z in qkv[:2])
    y = functional.scaled_dot_product_attention(
      q, k, qkv[2], dropout_p=self.rate * self.training, is_causal=True
    )
    x = x + self.drop(self.out(y.transpose(1, 2).reshape(batch, length, width)))
    return x + self.drop(self.mlp(self.before_mlp(x)))


def turned(z: torch.Tensor) -> torch.Tensor:
  """(a, b) -> (-b, a) of the halves of the channels."""
  first, second = z.chunk(2, -1)
  return torch.cat([-second, first], -1)


class Transformer(nn.Module):
  """The chess Transformer; `heads` are those of the state."""

  def __init__(
    self, size: int, heads: layers.Heads, width: int = 128, rate: float = 0.1
  ) -> None:
    super().__init__()
    self.channels, self.labels = 64, heads
    self.embedding = nn.Embedding(size, width)
    self.block = Block(width, width // 64, rate)
    self.final = nn.RMSNorm(width, EPSILON)
    self.head = nn.Linear(width, sum(heads))
    self.drop = nn.Dropout(rate)

  def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """[] mean of all losses."""
    half = self.channels // 2
    rates = 10000.0 ** (-torch.arange(half) / half)
    angles = torch.arange(tokens.shape[1])[:, None] * rates
    angles = torch.cat([angles, angles], -1)
    x = self.drop(self.embedding(tokens))
    x = self.block(x, torch.cos(angles), torch.sin(angles))
    return losses(self.head(self.final(x)), labels, self.labels)


def losses(
  logits: torch.Tensor, labels: torch.Tensor, heads: layers.Heads
) -> torch.Tensor:
  """[] mean over tokens and heads, a call for each run of like heads."""
  total, start = 0.0, 0
  for first, num, classes in layers.head_runs(heads):
    part = logits[..., first : first + num * classes].reshape(-1, classes)
    label = labels[..., start : start + num].reshape(-1)
    total = total + functional.cross_entropy(part, label, reduction='sum')
    start += num
  return total / labels.numel()


class Recurrence(torch.autograd.Function):
  """All y_t = y_(t - 1) + A_t y_(t - 1) + b_t, without a graph of its steps."""

  @staticmethod
  def forward(
    ctx: Any, a: torch.Tensor, b: torch.Tensor, start: torch.Tensor
  ) -> torch.Tensor:
    """a [L, X, k, k], b [L, X, k], start [X, k] -> [L, X, k]."""
    y = torch.empty_like(b)
    now = start
    for t in range(len(b)):
      now = torch.baddbmm(
        (now + b[t]).unsqueeze(-1), a[t], now.unsqueeze(-1), out=y[t, ..., None]
      ).squeeze(-1)
    ctx.save_for_backward(a, y, start)
    return y

  @staticmethod
  def backward(ctx: Any, slope: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Adjoints, and the outer products all at once."""
    a, y, start = ctx.saved_tensors
    h = torch.empty_like(y)
    later = torch.zeros_like(start)
    for t in reversed(range(len(y))):
      now = torch.add(slope[t], later, out=h[t])
      later = torch.baddbmm(
        now.unsqueeze(-1), a[t].transpose(-1, -2), now.unsqueeze(-1)
      ).squeeze(-1)
    before = torch.cat([start[None], y[:-1]])
    return h.unsqueeze(-1) * before.unsqueeze(-2), h, later


class Slice(nn.Module):
  """SLiCE of one layer with blocks of `size`."""

  def __init__(
    self,
    vocab: int,
    heads: layers.Heads,
    width: int = 128,
    rate: float = 0.1,
    size: int = 8,
  ) -> None:
    super().__init__()
    self.labels, self.size = heads, size
    self.embedding = nn.Embedding(vocab, width)
    self.before_scan = nn.RMSNorm(width, EPSILON)
    self.transition = nn.Linear(width + 1, width * size, bias=False)
    self.drive = nn.Linear(width + 1, width, bias=False)
    self.first = nn.Parameter(torch.zeros(width))
    self.before_mlp = nn.RMSNorm(width, EPSILON)
    self.up, self.down = (
      nn.Linear(width, 4 * width),
      nn.Linear(4 * width, width),
    )
    self.head = nn.Linear(width, sum(heads))
    self.drop = nn.Dropout(rate)

  def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """[] mean of all losses."""
    x = self.drop(self.embedding(tokens))
    x = x + self.drop(self.scan(self.before_scan(x)))
    y = self.down(functional.gelu(self.up(self.before_mlp(x))))
    return losses(self.head(x + self.drop(y)), labels, self.labels)

  def scan(self, u: torch.Tensor) -> torch.Tensor:
    """[B, L, D] states; time goes first within."""
    batch, length, width = u.shape
    u = u.transpose(0, 1)
    steps = torch.cat([u[:1], u[1:] - u[:-1]])
    w = 0.1 * torch.cat([torch.ones_like(u[..., :1]), steps], -1)
    size = self.size
    a = self.transition(w).view(length, -1, size, size)
    b = self.drive(w).view(length, -1, size)
    start = self.first.expand(batch, width).reshape(-1, size)
    y = Recurrence.apply(a, b, start)
    return y.view(length, batch, width).transpose(0, 1)


def load(module: nn.Module, params: dict[str, np.ndarray]) -> None:
  """Our parameters by path, with kernels turned round."""
  result = {}
  for path, array in params.items():
    name = path.replace('blocks.0.', 'block.').replace('.attention', '')
    if isinstance(module, Slice):
      name = name.removeprefix('block.').removeprefix('mlp.')
    parts = name.split('.')
    if parts[-1] == 'kernel':
      inputs = 2 if 'out' in parts else 1
      array = array.reshape(int(np.prod(array.shape[:inputs])), -1).T
    renamed = {'kernel': 'weight', 'scale': 'weight', 'table': 'weight'}
    parts[-1] = renamed.get(parts[-1], parts[-1])
    expected = '.'.join(parts)
    result[expected] = torch.tensor(array).reshape(
      module.get_parameter(expected).shape
    )
  module.load_state_dict(result)
