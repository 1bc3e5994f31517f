"""Token coverage: how many tokens of the vocabulary stored sequences have."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from wm import core
from wm.core import registry
from wm.data import sampling
from wm.data import store as stores
from wm.options.calls import Path
from wm.reporting.paper_comparison import COVERAGE_FILE
from wm.runtime import files


class Coverage(NamedTuple):
  """Tokens after the prompt in stored sequences.

  Attributes:
    data: folder of the sequences.
    world: spec of their world.
    sequences, tokens: how many there are.
    ids: tokens of the vocabulary, but for padding and those that are in prompts
      alone, such as a start token.
    seen: how many of these there are.
    new: how many of them the first of the folders has not.
    unseen: share of the tokens which that has not, however often they occur.
  """

  data: str
  world: str
  sequences: int
  tokens: int
  ids: int
  seen: int
  new: int
  unseen: float

  def line(self) -> str:
    """'runs/a: 1,968 of 20,480 tokens (9.61 %) in 9 sequences', and so on."""
    return (
      f'{self.data}: {self.seen:,} of {self.ids:,} tokens '
      f'({self.seen / max(self.ids, 1):.2%}) in {self.sequences:,} sequences; '
      f'{self.new:,} of them, {self.unseen:.3g} of all occurrences, are new'
    )


def coverage(
  folders: Path | Sequence[Path],
  out: Path | None = None,
  *,
  log: Callable[[str], None] = lambda line: None,
) -> list[Coverage]:
  """Counts the different tokens of stored sequences (Walker and Lyons 2026,
  table 3).

  Args:
    folders: of stored sequences, of one vocabulary, such as those to train on
      and then those of tests.
    out: folder for coverage.json, which a report into it tables beside the
      paper's counts.
    log: gets a line for each folder.

  Returns:
    What each folder has, the first of them being what the others add to.

  Raises:
    InputError: a folder without sequences, or of another vocabulary.
  """
  places = [folders] if isinstance(folders, str | pathlib.Path) else [*folders]
  if not places:
    raise core.InputError('expected a folder of stored sequences')
  opened = [stores.open(folder) for folder in places]
  spec = str(opened[0].manifest['world'])
  world = registry.make('world', spec)
  counts, prompts = [], np.zeros(len(world.vocab), bool)
  for store in opened:
    sampling.check_vocab(store, world)
    count, in_prompts = _counts(store, world)
    counts.append(count)
    prompts |= in_prompts
  occurring = np.any(counts, axis=0)
  possible = occurring | ~prompts
  possible[core.PAD] = False
  first = counts[0] > 0
  results = [
    Coverage(
      str(folder),
      *(str(store.manifest['world']), len(store), int(count.sum())),
      *(int(possible.sum()), int((count > 0).sum())),
      int(((count > 0) & ~first).sum()),
      float(count[~first].sum() / max(count.sum(), 1)),
    )
    for folder, store, count in zip(places, opened, counts, strict=True)
  ]
  for result in results:
    log(result.line())
  if out is not None:
    rows: list[dict[str, Any]] = [result._asdict() for result in results]
    files.write_json(pathlib.Path(out) / COVERAGE_FILE, rows)
    log(f'written: {out}/{COVERAGE_FILE}')
  return results


def _counts(
  store: stores.Store, world: core.World
) -> tuple[np.ndarray, np.ndarray]:
  """[V] int64, how often each token follows the prompts; [V] bool: in them."""
  size = len(world.vocab)
  total, prompts = np.zeros(size, np.int64), np.zeros(size, bool)
  for chunk in store.chunks():
    place = np.arange(chunk.tokens.shape[1])
    real = place < chunk.lengths[:, None]
    after = real & (place >= world.prompt_len)
    total += np.bincount(chunk.tokens[after], minlength=size)
    prompts[np.unique(chunk.tokens[real & ~after])] = True
  return total, prompts
