"""Samples a model's routes for drawn origins and destinations."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import shutil
from typing import Any

import numpy as np

from wm import core
from wm.core import basics, registry, resources
from wm.data import text
from wm.recon import routes
from wm.runtime import files, progress, provenance, tasks
from wm.worlds.maps import navigation

Path = pathlib.Path

_CODE = ('wm.recon.sampling', 'wm.core.accept')
_RECORD = {'inputs': dict, 'unknown': str, 'sha256': str}
CHUNK = 256  # Rows sampled and stored at a time; results do not depend on it.


def prompts(
  world: core.World, num: int, seed: int, pairs: str = 'uniform'
) -> np.ndarray:
  """Draws [num, 2] int32 tokens: origins and destinations.

  Args:
    world: a street map.
    num: number of pairs.
    seed: seed of the draws.
    pairs: 'uniform' over all pairs with a path within the length limit, as for
      the world's metrics (Vafa et al. 2024, mapping/); or 'train' or 'heldout',
      the pairs of sequences that the world samples for this split (figure 12).
      If the split has fewer pairs, they repeat in the same order.

  Raises:
    InputError: a world without streets, or a split without a sequence.
  """
  routes.street_graph(world)  # Raises InputError without streets.
  if pairs != 'uniform':
    drawn = world.sample(num, seed, pairs).tokens[:, :2]
    if not len(drawn):
      raise core.InputError(f'{registry.spec(world)} has no {pairs} pair')
    return np.resize(drawn, (num, 2)).astype(np.int32)
  assert isinstance(world, navigation.Navigation)  # It draws trials on them.
  return world.sample_states(num, seed) + np.int32(navigation.NODE0)


@dataclasses.dataclass(frozen=True)
class Drawing:
  """Samples routes from a predictor.

  Each prompt gets one sequence, drawn at temperature 1 among the accepted
  tokens, up to the world's greatest length. A sequence has no `end` if it is
  cut off there, draws padding, or has no accepted next token.

  Attributes:
    predictor: model to sample from.
    world: a street map.
    num: number of sequences.
    seed: seed of pairs and draws.
    accept: rule from `wm.core.accept`.
    pairs: see `prompts`.
  """

  predictor: core.Predictor
  world: core.World
  num: int
  seed: int
  accept: Any
  pairs: str = 'uniform'

  @functools.cached_property
  def heads(self) -> np.ndarray:
    """[num, 2] int32 prompts; see `prompts`."""
    return prompts(self.world, self.num, self.seed, self.pairs)

  def part(self, first: int) -> str:
    """CHUNK routes from number `first` on, in the published format."""
    heads = self.heads[first : first + CHUNK]
    num = len(heads)
    drawn = core.sample(
      self.predictor,
      heads,
      np.full(num, 2, np.int32),
      num=1,
      max_len=self.world.max_len,
      seeds=basics.hash64(self.seed, first + np.arange(num)),
      accept=self.accept,
    )
    tokens = np.concatenate([heads, drawn.tokens[:, 0]], -1).astype(np.int32)
    # A sequence that draws padding stops before it.
    pad = np.pad(tokens == core.PAD, ((0, 0), (0, 1)), constant_values=True)
    lengths = np.argmax(pad, -1).astype(np.int32)
    return text.render(core.Sequences(tokens, lengths), self.world)


def forget(
  path: str | Path, world: core.World, origin: provenance.Origin
) -> str:
  """Removes cached sequences if the model, the world or the code has changed.

  NAME.origin.json records their inputs.

  Args:
    path: text file of `write`.
    world: world of the sequences.
    origin: inputs of the predictor.

  Returns:
    Reason for the removal; '' if the sequences are valid or absent.
  """
  path = Path(path)
  record, parts = path.with_suffix('.origin.json'), _parts(path)
  inputs = provenance.Reader().of(*_CODE, world, origin.inputs).inputs
  why = ''
  if path.exists() or parts.exists():
    why = origin.unknown or 'an earlier version did not record from what'
    if record.exists() and not origin.unknown:
      before = files.read_record(record, _RECORD)
      why = before['unknown'] or provenance.difference(before['inputs'], inputs)
      if not why and path.exists() and before['sha256'] != files.sha256(path):
        why = f'{path.name} is damaged: its hash is wrong'
      if not why:
        return ''
  path.unlink(missing_ok=True)
  shutil.rmtree(parts, ignore_errors=True)
  now = {'inputs': inputs, 'unknown': origin.unknown, 'sha256': ''}
  files.write_json(record, now)
  return why


def seal(path: str | Path) -> None:
  """Records the hash of the sampled sequences, so that damage is noticed."""
  record = Path(path).with_suffix('.origin.json')
  now = files.read_record(record, _RECORD)
  files.write_json(record, {**now, 'sha256': files.sha256(path)})


def _parts(path: Path) -> Path:
  return path.with_name(path.name + '.parts')


def write(drawing: Drawing, path: str | Path) -> None:
  """Samples routes into a text file; a killed run resumes.

  With several processes, see `tasks.driven`, the others draw parts as well.

  path: file in the published format. A folder of the same name with the suffix
    `.parts` holds finished parts until all are done.
  """
  path, num = Path(path), drawing.num
  if path.exists():
    return
  resources.require_sequences(drawing.world, num, f'num={num} routes')
  assert len(drawing.heads) == num  # Raises errors of prompts early.
  parts = {
    first: _parts(path) / f'{first:09d}.txt' for first in range(0, num, CHUNK)
  }
  todo = [
    tasks.Task(drawing.part, {'first': first}, part.exists)
    for first, part in parts.items()
  ]
  with progress.Progress('sample routes', num, 'sequences') as shown:
    for task, lines in tasks.run(todo):
      first = task.arguments['first']
      if lines is not None:
        files.write_text(parts[first], lines)
      shown.update(min(CHUNK, num - first))
  files.write_text(
    path, ''.join(part.read_text('utf-8') for part in parts.values())
  )
  shutil.rmtree(_parts(path))
