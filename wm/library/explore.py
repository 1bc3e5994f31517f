"""The explorer of a run or a model, from a prompt or in a notebook."""

from __future__ import annotations

import html
import importlib
import os
import pathlib
import threading
from typing import Any

from wm import core
from wm.core import registry
from wm.core.accept import Accept
from wm.evaluation.scoring import Loaded
from wm.explorer import server, views
from wm.library.loading import Source, load_predictor
from wm.options import takes
from wm.options.calls import Loading
from wm.reporting import collect, worst

MOST_MODELS = 4  # Side by side.
MOST_TRIALS = 6  # Trials of each metric and quantity.


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
  """Serves a page in which to walk a world beside what models say of it.

  Tokens are chosen on the world's picture or from the list of what is legal or
  accepted. The page shows two ways to one place and what tells two places
  apart, reads the state by a probe, and jumps to the worst trials
  of the run's results. It needs no network and is served on 127.0.0.1 alone, at
  an address with a random token.

  Args:
    run: a training run's folder, a model's spec or a predictor, see
      `wm.load_predictor`; several, up to 4, are shown side by side.
    world: whose rules they are held against; None is the one that the first
      run was trained on.
    accept: which next tokens count as possible.
    port: to serve at; 0 is any that is free.
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
  run = collect.load(folder)
  views = []
  for group in worst.groups(run, MOST_TRIALS):
    trials = [
      {
        'value': trial.value,
        'prefixes': prefixes,
        'suffix': [ids[word] for word in trial.suffix if word in ids],
        'at': trial.wrong_at,
      }
      for trial in group.trials
      if (prefixes := _prefixes(trial, ids))
    ]
    if trials:
      views.append(
        {
          'model': name,
          'metric': group.spec,
          'quantity': group.quantity,
          'tells': group.tells,
          'measured': group.measured,
          'short': group.short,
          'trials': trials,
        }
      )
  return views


def _prefixes(trial: worst.Trial, ids: dict[str, int]) -> list[list[int]]:
  """Prefixes of a trial as ids; none where this world has not all tokens."""
  words = [prefix.split() for prefix in trial.prefixes]
  if not all(word in ids for prefix in words for word in prefix):
    return []
  return [[ids[word] for word in prefix] for prefix in words]
