"""The explorer of a run or a model, from a prompt or in a notebook."""

from __future__ import annotations

import html
import importlib
import math
import os
import pathlib
import threading
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from wm import core
from wm.core import basics, registry
from wm.core.accept import Accept
from wm.evaluation.scoring import Loaded
from wm.explorer import server, views
from wm.library.loading import Source, load_predictor
from wm.options import takes
from wm.options.calls import Loading
from wm.reporting import catalog, collect, tables

MOST_MODELS = 4  # Side by side.
MOST_TRIALS = 6  # Trials of each metric and quantity.
BEST = 1.0  # Headline quantities are shares; a trial with this is no failure.
# What is read of a run's rows.
_COLUMNS = 'suffix', 'prefix', 'other_prefix', 'state', 'other_state'


class ExplorerPage:
  """A page that is being served; a notebook shows it in the cell.

  The last line of a cell, `wm.explore(run)`, shows the page in a frame. The
  browser must be on the machine of the kernel, or reach it by the same port
  (`ssh -L PORT:localhost:PORT` with `port=PORT`). In Colab, whose kernel is
  elsewhere, Colab's proxy serves the frame. The page is there until the kernel
  ends or `stop` is called; the cell may be run again.

  Attributes:
    url: opens it, on this machine alone.
  """

  def __init__(self, view: views.Explorer, port: int, fragment: str = ''):
    self._colab = 'COLAB_RELEASE_TAG' in os.environ
    self._server = server.Server(view, port, proxied=self._colab)
    self.url = self._server.url + (f'#{fragment}' if fragment else '')
    # Not the main thread, which signals belong to, and a notebook's cells.
    self._thread = threading.Thread(target=self._server.run, daemon=True)
    self._thread.start()

  def wait(self) -> None:
    """Returns once `stop` was called; Ctrl-C ends the process."""
    while self._thread.is_alive():
      self._thread.join(timeout=1)

  def stop(self) -> None:
    """Ends the page."""
    self._server.stop()
    self._thread.join()

  def __repr__(self) -> str:
    return f'ExplorerPage({self.url})'

  def _repr_html_(self) -> str:
    """The page in a cell; through Colab's proxy where that is the machine."""
    if not self._colab:
      return (
        f'<iframe src="{html.escape(self.url)}" width="100%" height="820" '
        'style="border:0"></iframe>'
      )
    output = importlib.import_module('google.colab').output
    path = self.url.split(f':{self._server.port}', 1)[1]
    output.serve_kernel_port_as_iframe(
      self._server.port, path=path, height='820'
    )
    return ''


@takes(loading=Loading)
def explore(
  run: Source | list[Source] | tuple[Source, ...],
  world: core.World | str | None = None,
  *,
  accept: Accept | str = 'epsilon(0.01)',
  port: int = 0,
  fragment: str = '',
  loading: Loading,
) -> ExplorerPage:
  """Serves a page for walking through a world beside models' predictions.

  The user chooses tokens on the world's picture, or from the list of legal and
  accepted tokens. The page shows two prefixes of one state, the suffixes that
  separate two states, the state that a probe reads, and the worst trials of the
  run's results. It needs no network, and is served on 127.0.0.1 alone, at an
  address with a random token.

  Args:
    run: a training run's folder, a model's spec or a predictor, see
      `wm.load_predictor`; several, up to 4, are shown side by side.
    world: the true rules; None is the world that the first run was trained on.
    accept: which next tokens count as possible.
    port: port of the server; 0 is any free one.
    fragment: the view to open, as a page's address has it after '#'; '' is the
      first.
    loading: checkpoint of a run, seed of all that is drawn, and name.

  Returns:
    ExplorerPage: `url`, `wait()` and `stop()`; in a notebook's cell, the page.

  Raises:
    InputError: no such run, model or view, too many, other vocabularies, or
      the extra `explore` is not installed.
  """
  sources = [*run] if isinstance(run, list | tuple) else [run]
  if not 1 <= len(sources) <= MOST_MODELS:
    raise core.InputError(
      f'{len(sources)} models; expected 1 to {MOST_MODELS} side by side'
    )
  truth = None if world is None else registry.resolve('world', world)
  loaded: dict[str, Loaded] = {}
  shown: list[Any] = []
  for source in sources:
    each = load_predictor(source, truth, loading=loading)
    truth = truth or each.world
    each.check()
    folder = _folder(source)
    name = _name(each.name if folder is None else folder.name, loaded)
    loaded[name] = each
    if folder is not None:
      shown += worst_trials(name, folder, truth)
  assert truth is not None  # There is one source at least.
  rule = registry.resolve('accept', accept)
  view = views.Explorer(truth, loaded, rule, loading.seed, shown)
  if fragment:
    view.check_fragment(fragment)
  return ExplorerPage(view, port, fragment)


def _folder(source: Source) -> pathlib.Path | None:
  """The folder of a run; None of what is no run."""
  is_path = isinstance(source, str | os.PathLike)  # A Run is one.
  return pathlib.Path(source) if is_path and os.path.isdir(source) else None


def _name(base: str, taken: dict[str, Loaded]) -> str:
  """A name for the page, numbered where it is taken."""
  name, number = base, 2
  while name in taken:
    name, number = f'{base} ({number})', number + 1
  return name


def worst_trials(
  name: str, folder: pathlib.Path, world: core.World
) -> list[Any]:
  """The worst trials of a run's metrics whose prefixes this world can read.

  Args:
    name: of the model, as the page calls it.
    folder: of the run; one without results has none.
    world: of the page.

  Returns:
    An object a metric and quantity: model, metric, quantity, tells (the trial's
    continuation in words), measured, short (of 1), trials: value, prefixes and
    suffix in tokens' ids, at (place in the suffix, from 1, where model and
    world part).

  Raises:
    InputError: results are damaged.
  """
  if not (folder / 'scores.json').is_file():
    return []
  ids = {word: n for n, word in enumerate(world.vocab)}
  groups = []
  for group in chosen(collect.load(folder), MOST_TRIALS):
    trials = [trial for row in group['trials'] if (trial := _in_ids(row, ids))]
    if trials:
      groups.append({'model': name, **group, 'trials': trials})
  return groups


def _in_ids(row: Mapping[str, Any], ids: dict[str, int]) -> dict[str, Any]:
  """A trial for the page; {} where this world has not all of its tokens."""
  texts = filter(None, (row['prefix'], row['other_prefix']))
  prefixes = [text.split() for text in texts]
  readable = all(word in ids for prefix in prefixes for word in prefix)
  if not (prefixes and readable):
    return {}
  return {
    'value': row['value'],
    'prefixes': [[ids[word] for word in prefix] for prefix in prefixes],
    'suffix': [ids[word] for word in row['suffix'].split() if word in ids],
    'at': 0 if math.isnan(row['wrong_at']) else int(row['wrong_at']),
  }


def chosen(run: collect.Run, most: int) -> list[dict[str, Any]]:
  """The worst trials of each metric of a run, in its plainest spec.

  Those have the lowest values of a headline quantity, below 1. Quantities whose
  rows have neither prefix nor state are left out.

  Returns:
    As `worst_trials`, without the model; trials are rows of the run.

  Raises:
    InputError: a file of rows is damaged.
  """
  specs = {
    name: spec
    for name, spec in tables.plainest(run.entries).items()
    if catalog.is_known(name)
  }
  by = ['metric', 'quantity']
  values = collect.trials(run, [*by, 'spec'], ['value'])
  plain = values.metric.isin(specs) & values.spec.isin(specs.values())
  values = values[plain & values.value.notna()]
  several: dict[tuple[str, str], list[pd.Series]] = {}
  for (metric, quantity), rows in values.groupby(by, sort=False, observed=True):
    if name := tables.headline(metric, quantity)[0]:
      several.setdefault((metric, name), []).append(rows.value)
  measured = {key: pd.concat(parts) for key, parts in several.items()}
  short = {  # Values are shown with three digits.
    key: value[value < BEST - 0.0005].sort_index()
    for key, value in measured.items()
  }
  at = np.concatenate([value.index for value in short.values()] or [[]])
  table = collect.trials(run, _COLUMNS, ('value', 'wrong_at'), at.astype(int))
  cells = {name: table[name].to_numpy(object) for name in table}
  result, end = [], 0
  for (metric, quantity), value in measured.items():
    begin, end = end, end + len(short[metric, quantity])
    columns = {name: column[begin:end] for name, column in cells.items()}
    if worst := _worst(columns, most):
      measure = catalog.measure(metric, quantity)
      result.append(
        {
          'metric': specs[metric],
          'quantity': quantity,
          'tells': measure.picture if measure else '',
          'measured': len(value),
          'short': end - begin,
          'trials': [{k: x[n] for k, x in columns.items()} for n in worst],
        }
      )
  return result


def _worst(rows: Mapping[str, np.ndarray], most: int) -> list[int]:
  """Chooses at most `most` of the rows.

  The worst have the lowest values. Equal ones are ordered by a hash of their
  states, so that every model shows the same. A state is shown once.
  """
  names = 'state', 'other_state', 'prefix', 'other_prefix'
  several = zip(*(rows[name] for name in names), strict=True)
  keys = [
    tuple(filter(None, cells[:2])) or tuple(filter(None, cells[2:]))
    for cells in several
  ]
  codes = [zlib.crc32('|'.join(key).encode()) for key in keys]
  hashes = basics.hash64(np.array(codes, np.int64))
  order = [*zip(rows['value'].tolist(), hashes.tolist(), strict=True)]
  ranked = np.lexsort((hashes, rows['value'].astype(float)))[::-1].tolist()
  states = {keys[k][0]: k for k in ranked if keys[k]}  # The first is kept.
  return sorted(states.values(), key=order.__getitem__)[:most]
