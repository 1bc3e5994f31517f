"""Reconstructs a map from sequences, and writes counts, edges and pictures."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from wm import core
from wm.core import registry
from wm.data import text
from wm.evaluation import scoring
from wm.options.reconstruction import Reconstruction
from wm.recon import draw, reconstruct, sampling
from wm.recon import routes as routes_lib
from wm.runtime import files, pages, progress, provenance, tasks

Path = pathlib.Path

STAGE = 'reconstruct'
# Counts whose range over orders is reported.
RANGED = ('failed', 'true_edges', 'new_edges', 'unused_edges')


def from_file(
  world: core.World,
  samples: str | Path,
  out: str | Path,
  options: Reconstruction,
  name: str | None = None,
) -> dict[str, Any]:
  """Reconstructs the map implied by a file of sequences, in the published
  format.

  name: name of the model in titles; default: the file's name.

  Returns:
    The content of OUT/summary.json. OUT also gets edges.csv, map.html, and
    map_far and map_close as .png and .svg.

  Raises:
    InputError: an unknown token or another fault of the file, a world
      without streets, or an `out` that holds another run.
  """
  routes_lib.street_graph(world)
  if not Path(samples).is_file():  # A pipe could not be read twice.
    raise core.InputError(f'samples={samples} is no file')
  about = {'samples': str(samples), 'samples_sha256': files.sha256(samples)}

  @files.locked_stage(STAGE)
  def locked(out: str | Path) -> dict[str, Any]:
    named = name or Path(samples).stem
    return _run(world, samples, out, options, named, about)

  return tasks.driven(lambda: locked(out))


def from_model(
  loaded: scoring.Loaded,
  out: str | Path,
  options: Reconstruction,
  *,
  num: int,
  accept: Any,
  pairs: str = 'uniform',
  log: Callable[[str], None] = print,
) -> dict[str, Any]:
  """Reconstructs the map implied by `num` sequences sampled from a predictor.

  The sequences are cached in OUT/samples.txt (see `sampling.write`) while the
  inputs of sampling are unchanged. If `jax.distributed` is initialized, every
  process makes the same call and draws a share; process 0 writes.

  Args:
    loaded: the model, and a street map.
    out: output folder.
    options: options of the reconstruction.
    num: sequences to sample.
    accept: acceptance rule of sampling, from `wm.core.accept`.
    pairs: origins and destinations; see `sampling.prompts`.
    log: gets a line if sequences are sampled again.

  Returns:
    See `from_file`.

  Raises:
    InputError: as `from_file`, or the model gives no next tokens.
  """
  predictor, world, name = loaded.predictor, loaded.world, loaded.name
  if not isinstance(predictor, core.Predictor):
    raise core.InputError(f'{name} names states, and no next tokens')
  rule = registry.spec(accept)
  about = {'model': name, 'num_samples': num, 'accept': rule, **loaded.about}
  if pairs != 'uniform':  # Descriptions of earlier versions lack it.
    about['pairs'] = pairs
  routes_lib.street_graph(world)
  samples = Path(out) / 'samples.txt'
  drawn = num, options.seed, accept, pairs
  drawing = sampling.Drawing(predictor, world, *drawn)

  @files.locked_stage(STAGE)
  def locked(out: str | Path) -> dict[str, Any]:
    """Samples missing sequences and reconstructs; process 0 alone."""
    with files.unclaim_on_bad_input(out, STAGE, 'samples.origin.json'):
      _claim(world, out, options, about)
      if why := sampling.forget(samples, world, loaded.origin):
        log(f'{samples}: sampled anew: {why}')
        (Path(out) / 'summary.json').unlink(missing_ok=True)
      sampling.write(drawing, samples)
    sampling.seal(samples)
    return _run(world, samples, out, options, name, about)

  return tasks.driven(lambda: locked(out), drawing.part)


def _claim(
  world: core.World,
  out: str | Path,
  options: Reconstruction,
  about: dict[str, Any],
) -> None:
  files.claim(
    out,
    STAGE,
    {
      'world': registry.spec(world),
      'world_version': world.version,
      **dataclasses.asdict(options),
      **about,
    },
  )


def _run(
  world: core.World,
  samples: str | Path,
  out: str | Path,
  options: Reconstruction,
  name: str,
  about: dict[str, Any],
) -> dict[str, Any]:
  sequences = text.read(samples, world)
  graph = routes_lib.street_graph(world)
  routes, ill_formed = routes_lib.extract(sequences, world)
  # Blank lines of a file do not count as rows.
  blank = sequences.counts.get('ill_formed', 0) - sum(ill_formed.values())
  ill_formed[routes_lib.SHORT] += max(blank, 0)
  placed = routes_lib.apply_control(
    options.control or '',
    routes,
    graph,
    rate=options.error_rate,
    seed=options.seed,
  )
  placed, edges, counted, runs = _orders(graph, placed, options)
  # The input has passed all checks.
  _claim(world, out, options, about)
  table = reconstruct.edge_table(graph, placed, edges)
  summary = {
    'model': name,
    'world': registry.spec(world),
    'world_version': world.version,
    'commit': provenance.commit(),
    **about,
    **dataclasses.asdict(options),
    'sequences': len(sequences) + max(blank, 0),
    'directions': routes_lib.directions(sequences, world),
    'characters': text.characters(samples),
    'ill_formed': sum(ill_formed.values()),
    'ill_formed_reasons': ill_formed,
    **counted,
    'orders': runs,
    'measures': reconstruct.edge_summary(table),
  }
  _write(world, placed, table, Path(out), summary)
  return summary


def _orders(
  graph: Any, routes: routes_lib.Routes, options: Reconstruction
) -> tuple[routes_lib.Routes, Any, dict[str, Any], dict[str, Any]]:
  """Returns routes in the chosen order, their edges and counts, and the range
  of counts over all orders.
  """
  num = len(routes.origins)
  near = reconstruct.candidates(graph, options)
  orders: list[tuple[str, np.ndarray]] = [
    (str(options.order), reconstruct.permutation(num, options.order))
  ]
  for k in range(1, options.shuffles + 1):
    rows = reconstruct.permutation(num, options.seed, k)
    orders.append((f'{options.seed}/{k}', rows))
  first, rows_of_runs = None, []
  with progress.Progress(STAGE, len(orders), 'orders') as shown:
    for label, rows in orders:
      ordered = routes.take(rows)
      fate = routes_lib.follow(ordered, graph)
      edges = reconstruct.reconstruct(graph, ordered, options, near)
      counted = reconstruct.counts(graph, ordered, fate, edges)
      if first is None:
        groups = fate.groups(ordered)
        classes = np.bincount(groups, minlength=len(routes_lib.CLASSES))
        about = {
          'routes': num,
          'classes': dict(
            zip(routes_lib.CLASSES, classes.tolist(), strict=True)
          ),
        }
        rates = reconstruct.rates(graph, ordered, fate, edges)
        first = ordered, edges, about | counted | rates
      rows_of_runs.append({'order': label, **{k: counted[k] for k in RANGED}})
      shown.update()
  assert first is not None
  return *first, _ranges(rows_of_runs)


def _ranges(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
  """Returns mean and range of each count over orders."""
  table = pd.DataFrame(runs)
  ranges = {
    key: {
      'mean': float(table[key].mean()),
      'least': int(table[key].min()),
      'most': int(table[key].max()),
    }
    for key in RANGED
  }
  return {'n': len(runs), 'runs': runs, **ranges}


def title(summary: dict[str, Any]) -> str:
  """Returns the headline of a map."""
  what = {
    'none': 'routes',
    'valid': 'valid routes',
    'uniform': 'valid routes with random mistakes',
    'matched': "valid routes with mistakes like the model's",
  }[summary['control']]
  return f'{summary["model"]}: the map implied by {summary["routes"]:,} {what}'


def _write(
  world: core.World,
  routes: routes_lib.Routes,
  table: pd.DataFrame,
  out: Path,
  summary: dict[str, Any],
) -> None:
  """Writes every file of a run; summary.json comes last, as a mark."""
  graph = routes_lib.street_graph(world)
  (out / 'summary.json').unlink(missing_ok=True)
  with files.replacing(out / 'edges.csv') as name:
    frame = reconstruct.edge_frame(graph, routes, table)
    frame.to_csv(name, index=False, float_format='%.1f')
  draw.write(graph, table, out, title(summary))
  shown = pages.render(
    *('wm.recon', 'map.html'),
    title=title(summary),
    subtitle=(
      f'{summary["world"]}; variant {summary["variant"]}, at most '
      f'{summary["max_degree"]} edges out of a node, new ones up to '
      f'{summary["max_miles"]:g} miles; order {summary["order"]}, seed '
      f'{summary["seed"]}'
    ),
    facts=facts(summary),
    data=draw.page_data(graph, routes, table),
  )
  files.write_text(out / 'map.html', shown)
  files.write_json(out / 'summary.json', summary)


def facts(summary: dict[str, Any]) -> list[tuple[str, str]]:
  """Returns the counts of a summary in words, for a small table."""
  routes, failed = summary['routes'], summary['failed']
  counts = {
    'sequences': summary['sequences'],
    'ill-formed': summary['ill_formed'],
    'placed': routes - failed,
    'failed': failed,
  }
  if routes:
    for name, head in (
      ('failed_routes', 'failed share'),
      ('illegal_directions', 'share of directions that no street has'),
    ):
      rate = summary[name]
      counts[f'{head}, 95 % interval'] = (
        f'{rate["value"]:.3f} ({rate["low"]:.3f} to {rate["high"]:.3f})'
      )
  for reason, count in summary['failure_reasons'].items():
    counts[f'failed: {reason.replace("_", " ")}'] = count
  if (orders := summary['orders'])['n'] > 1:
    over = orders['failed']
    counts[f'failed over {orders["n"]} orders'] = (
      f'{over["mean"]:,.1f} ({over["least"]:,} to {over["most"]:,})'
    )
  for key in (*RANGED[1:], 'self_loops', 'parallel_edges'):
    counts[key.replace('_', ' ')] = summary[key]
  return [
    (name, value if isinstance(value, str) else f'{value:,}')
    for name, value in counts.items()
  ]
