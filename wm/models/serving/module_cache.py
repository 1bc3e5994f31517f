"""The cache of keys and values that a user's PyTorch module returns.

A module may read a cache, None at first, and return it beside its logits:

    logits, cache = module(tokens)           [R, L], from the beginning
    logits, cache = module(tokens, cache)    [R, 1], after the cached ones

The argument has one of NAMES, and the cache is a tree of lists, tuples and
dicts of tensors, of any shapes; the state of a recurrent network is one, too.
Scoring then reads every token once. A cache is used if it agrees with reading
whole sequences. Modules of Hugging Face have caches of another kind
(`tokenization`).
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wm import core
from wm.core import plugins, predictor
from wm.models.serving import adapters

NAMES = (
  *('cache', 'caches', 'kv_cache', 'past', 'past_kv', 'past_kvs'),
  *('past_key_values', 'layer_past', 'state', 'states', 'hx', 'memory'),
)
ROWS = 512  # Most rows of a call.
# Largest difference from whole sequences, relative to the largest logit.
TOLERANCE = 1e-4
EVERY = 8  # Tokens between two comparisons with whole sequences.


class _CachedCall(NamedTuple):
  """The cache after a call.

  Attributes:
    size: tokens that each row has read.
    leaves: the tensors of the tree, in order.
    tree: the cache itself.
  """

  size: int
  leaves: list[Any]
  tree: Any


# A row of a call: its rows share tensors.
_State = tuple[_CachedCall, int]


def _mapped(tree: Any, act: Callable[[Any], Any]) -> Any:
  """The tree with `act` of each tensor in its place."""
  if adapters.is_a(tree, 'torch', 'Tensor'):
    return act(tree)
  if isinstance(tree, Mapping):
    return {key: _mapped(part, act) for key, part in tree.items()}
  if isinstance(tree, list | tuple):
    parts = [_mapped(part, act) for part in tree]
    plain = type(tree) in (list, tuple)  # Else one with names.
    return type(tree)(parts) if plain else type(tree)(*parts)
  return tree


def _leaves(tree: Any) -> list[Any]:
  """The tensors of a tree, in order."""
  leaves = list[Any]()
  _mapped(tree, leaves.append)
  return leaves


class ModuleCache:
  """`start` and `step` of a module with a cache; see `user_objects`.

  Attributes:
    axes: axis of each tensor of a cache along which rows lie; None of a tensor
      that all rows share.
  """

  def __init__(self, module: Any, name: str, label: str) -> None:
    """name: of the argument that takes the cache."""
    self._name, self.axes = name, list[int | None]()
    names = inspect.signature(module.forward).parameters
    self._more = {'use_cache': True} if 'use_cache' in names else {}
    # The module in evaluation mode, on its device, left as it was.
    self._call = adapters.torch_call(module, label, '__call__')
    self._module = module

  def _read(
    self, ids: np.ndarray, before: Any
  ) -> tuple[np.ndarray, _CachedCall]:
    """Logits [R, V] after ids [R, K], and the cache; before: a tree or None."""
    output = self._call(ids, **{self._name: before}, **self._more)
    logits = adapters.logits_of(output, len(ids))
    if isinstance(output, tuple):
      # Beside the logits there may be a loss: the cache has more tensors.
      others = [part for part in output if part is not logits]
      tree = max(others, key=lambda part: len(_leaves(part)), default=None)
    elif isinstance(output, Mapping):
      tree = output[self._name]
    else:
      tree = getattr(output, self._name)
    last = adapters.as_array(logits)[:, -1]
    return last, _CachedCall(ids.shape[1], _leaves(tree), tree)

  def _gathered(self, states: Sequence[_State], rows: Sequence[int]) -> Any:
    """The tree of the states `rows`, which come call by call."""
    torch: Any = sys.modules['torch']
    chosen: dict[int, tuple[_CachedCall, list[int]]] = {}
    for row in rows:
      call, place = states[row]
      chosen.setdefault(id(call), (call, []))[1].append(place)
    parts = []
    for call, places in chosen.values():
      index = torch.as_tensor(places)
      parts.append(
        [
          leaf
          if axis is None
          else leaf.index_select(axis, index.to(leaf.device))
          for leaf, axis in zip(call.leaves, self.axes, strict=True)
        ]
      )
    leaves = [
      several[0] if axis is None else torch.cat(several, axis)
      for several, axis in zip(zip(*parts, strict=True), self.axes, strict=True)
    ]
    following = iter(leaves)
    return _mapped(call.tree, lambda leaf: next(following))

  def _run(
    self, ids: Sequence[np.ndarray], states: Sequence[_State] | None
  ) -> tuple[list[_State], np.ndarray]:
    """States [R] and logits [R, V] after ids; ids[r] are new to row r."""
    read = [0 if states is None else state[0].size for state in states or ids]
    after: list[Any] = [None] * len(ids)
    values: list[Any] = [None] * len(ids)
    # Rows of a call have read equally many tokens, and read equally many.
    sizes = np.array([(n, len(row)) for n, row in zip(read, ids, strict=True)])
    for size in np.unique(sizes, axis=0):
      of_size: list[int] = np.flatnonzero((sizes == size).all(1)).tolist()
      if states is not None:
        # Numbers of calls are in order of their rows, as ids differ by run.
        number: dict[int, int] = {}
        calls = [
          number.setdefault(id(states[row][0]), len(number)) for row in of_size
        ]
        order = np.argsort(calls, kind='stable').tolist()
        of_size = [of_size[k] for k in order]
      for part in predictor.chunks(len(of_size), 1, ROWS):
        rows = of_size[part]
        tree = None
        if states is not None:
          with adapters.few_threads(self._module):
            tree = self._gathered(states, rows)
        logits, call = self._read(np.stack([ids[r] for r in rows]), tree)
        call = call._replace(size=int(size.sum()))
        for place, row in enumerate(rows):
          after[row], values[row] = (call, place), logits[place]
    return after, np.stack(values)

  def start(
    self, tokens: np.ndarray, lengths: np.ndarray
  ) -> tuple[list[_State], np.ndarray]:
    """States [R] and logits [R, V] after prefixes [R, L] of lengths [R]."""
    rows = zip(tokens, lengths, strict=True)
    return self._run([row[:size] for row, size in rows], None)

  def step(
    self, states: Sequence[_State], tokens: np.ndarray
  ) -> tuple[list[_State], np.ndarray]:
    """States [R] and logits [R, V] after one more token each."""
    return self._run(list(np.asarray(tokens)[:, None]), states)

  def agrees(self, tokens: np.ndarray) -> bool:
    """Does the cache agree with reading whole sequences [R, L]?"""
    few, more = tokens[:2, :1], np.resize(tokens[:, :1], (3, 1))
    shapes = [
      [tuple(leaf.shape) for leaf in self._read(ids, None)[1].leaves]
      for ids in (few, more)
    ]
    if not shapes[0] or len(shapes[0]) != len(shapes[1]):
      return False
    for two, three in zip(*shapes, strict=True):
      differ = [k for k, n in enumerate(two) if (n, three[k]) == (2, 3)]
      self.axes.append(differ[0] if differ else None)
    # Rows begin unevenly: they share a call, and later do not.
    lengths = 1 + np.arange(len(tokens)) % (tokens.shape[1] - 1)
    states, logits = self.start(tokens, lengths)
    while (under := np.flatnonzero(lengths < tokens.shape[1])).size:
      new = tokens[under, lengths[under]]
      moved, logits = self.step([states[r] for r in under], new)
      lengths[under] += 1
      for row, state, after in zip(under, moved, logits, strict=True):
        states[row], size = state, lengths[row]
        if size % EVERY and size < tokens.shape[1]:
          continue
        whole, _ = self._read(tokens[row : row + 1, :size], None)
        allowed = TOLERANCE * max(1, np.abs(whole).max())
        if not np.abs(whole[0] - after).max() <= allowed:
          return False
    return True


def of(module: Any, tokens: np.ndarray, label: str) -> ModuleCache | None:
  """The cache of a PyTorch module, if it has one that can be used.

  tokens: [R, L] ids of sequences, R and L of at least 2.
  """
  names = inspect.signature(module.forward).parameters
  name = next((name for name in NAMES if name in names), None)
  if name is None or names[name].default is not None:
    return None
  try:
    # The argument may mean something else: any failure is the module's.
    with plugins.user_code(label):
      cache = ModuleCache(module, name, label)
      return cache if cache.agrees(tokens) else None
  except core.InputError:
    return None
