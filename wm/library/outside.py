"""What is brought from outside: maps, sequences, published checkpoints."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from wm import core
from wm.core import registry
from wm.data import store as stores
from wm.data import text_ingest
from wm.data.street_files import fetch as fetch_map
from wm.data.street_files import from_graph
from wm.library import calls
from wm.options.calls import Path
from wm.training.adopt import gpt2 as import_gpt2

__all__ = ['fetch_map', 'from_graph', 'import_gpt2', 'ingest_text']


def ingest_text(
  files: Path | Sequence[Path],
  out: Path,
  world: core.World | str,
  *,
  heldout: Path | Sequence[Path] = (),
  log: calls.Log = calls.silent,
) -> dict[str, stores.Store]:
  """Reads files of sequences, a line each, into OUT/data.

  Args:
    files: training sequences in the published text format, see `wm.data.text`.
    out: folder of the run.
    world: whose vocabulary and rules they follow; illegal lines, and those
      longer than its sequences or without their end, are left out.
    heldout: held-out sequences; training lines of the same split key (on a
      map: origin and destination) are left out. Without them the world divides
      `files` by split key, one in 20 held out.
    log: gets how much each split has, and what was left out.

  Returns:
    As `sample`.

  Raises:
    InputError: an unusable file, an unknown token with its line, no sequence
      left, or `out` holds other data.
  """
  manifests = text_ingest.make_dataset(
    registry.resolve('world', world), _list(files), _list(heldout), out
  )
  calls.log_splits(out, manifests, log)
  return calls.opened(out)


def _list(files: Path | Sequence[Path]) -> list[Path]:
  return [files] if isinstance(files, str | pathlib.Path) else list(files)
