"""Samples routes, reconstructs their map, writes counts, edges and pictures."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from wm import core
from wm.core import basics, registry, resources
from wm.data import text
from wm.evaluation import results, scoring
from wm.metrics import audit, coherence
from wm.options.calls import Reconstruction
from wm.recon import draw, reconstruct
from wm.recon import routes as routes_lib
from wm.runtime import files, pages, progress, provenance
from wm.worlds.maps import navigation, streets

Path = pathlib.Path

STAGE = 'reconstruct'
# Counts whose range over orders is reported.
RANGED = ('failed', 'true_edges', 'new_edges', 'unused_edges')
_RECORD = {'inputs': dict, 'unknown': str, 'sha256': str}
CHUNK = 256  # Rows sampled and stored at a time; results do not depend on it.


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
    map_far as .png and .svg.

  Raises:
    InputError: an unknown token or another fault of the file, a world
      without streets, or an `out` that holds another run.
  """
  routes_lib.street_graph(world)
  if not Path(samples).is_file():  # A pipe could not be read twice.
    raise core.InputError(f'samples={samples} is no file')
  about = {'samples': str(samples), 'samples_sha256': files.sha256(samples)}
  name = name or Path(samples).stem
  with files.stage_lock(out, STAGE):
    return _run(world, samples, out, options, name, about, {})


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

  The sequences are cached in OUT/samples.txt (see `write_samples`) while the
  inputs of sampling are unchanged.

  Args:
    loaded: the model, and a street map.
    out: output folder.
    options: options of the reconstruction.
    num: sequences to sample.
    accept: acceptance rule of sampling, from `wm.core.accept`.
    pairs: origins and destinations; see `prompts`.
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
  drawing = Drawing(predictor, world, num, options.seed, accept, pairs)
  with files.stage_lock(out, STAGE):
    with files.unclaim_on_bad_input(out, STAGE, 'samples.origin.json'):
      _claim(world, out, options, about)
      if why := forget_samples(samples, world, loaded.origin):
        log(f'{samples}: sampled anew: {why}')
        (Path(out) / 'summary.json').unlink(missing_ok=True)
      write_samples(drawing, samples)
    seal_samples(samples)
    errors = stored_errors(loaded, rule, Path(out))
    return _run(world, samples, out, options, name, about, errors)


# What folders of earlier versions say of options that are gone.
_ONCE = {'ties': 'default', 'rollback': False}


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
      **_ONCE,
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
  errors: Errors,
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
  }
  _write(world, placed, table, Path(out), summary, errors)
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
  errors: Errors,
) -> None:
  """Writes every file of a run; summary.json comes last, as a mark."""
  graph = routes_lib.street_graph(world)
  (out / 'summary.json').unlink(missing_ok=True)
  add_errors(table, graph, routes, errors)
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


# Metric -> side columns of its rows, of `exact` or of `false`.
Errors = Mapping[str, dict[str, np.ndarray]]
_QUANTITIES = {'audit': 'exact', 'coherence': 'false'}


def stored_errors(loaded: scoring.Loaded, rule: str, out: Path) -> Errors:
  """The stored results of a model's audit and coherence.

  A result counts if it is of this model, its checkpoint and its code, by the
  rule under which routes are sampled.
  """
  inputs, errors = loaded.origin.inputs.items(), dict[str, Any]()
  for metric, quantity in _QUANTITIES.items():
    for path in sorted((out / results.FOLDER).glob(f'{metric}-*.json')):
      try:
        stored = results.read(path)
      except results.Unusable:
        continue
      spec = stored.about['extra'].get('model_spec')
      scores = {each.quantity: each for each in stored.scores}
      if (
        not stored.unknown
        and inputs <= stored.origin.items()
        and spec == loaded.about.get('model_spec')
        and _rule_of(registry.resolve('metric', stored.spec)) == rule
      ):
        errors[metric] = scores[quantity].measured_columns()
  return errors


def _rule_of(metric: Any) -> str:
  """Spec of a metric's acceptance rule."""
  return registry.spec(registry.resolve('accept', metric.accept))


def add_errors(
  edges: pd.DataFrame, graph: Any, routes: routes_lib.Routes, errors: Errors
) -> None:
  """Adds what the metrics `audit` and `coherence` say of each edge.

  Columns: `accepted`, the share of the states of the edge's intersection in
  which the model accepts the direction; `recurs`, the share of the errors that
  accept a new edge which recur after another route to the same state. Both are
  NaN where the metric has not asked.

  errors: of `stored_errors`.
  """
  labels = [*streets.DIRECTIONS, *routes.others]
  names = np.array(graph.names)[edges.source].tolist()
  moves = [*zip(names, (labels[k] for k in edges.label), strict=True)]
  false = (edges.kind == reconstruct.FALSE).to_numpy()
  edges['accepted'] = edges['recurs'] = np.nan
  if exact := errors.get('audit'):
    asked = {*map(str, exact['location'])}
    wrong = {each[:3]: each.share for each in audit.wrong_moves(exact)}
    # A route may need a new edge in a direction that a street has.
    legal = routes_lib.moves(routes, graph)[edges.source, edges.label] >= 0
    share = np.array(
      [
        1 - wrong.get((*move, False), 0)
        if real
        else wrong.get((*move, True), 0)
        for move, real in zip(moves, legal, strict=True)
      ]
    )
    edges['accepted'] = np.where([x in asked for x in names], share, np.nan)
  if wrong_moves := errors.get('coherence'):
    share_of = coherence.recurrence(wrong_moves)
    share = np.array([share_of.get(move, np.nan) for move in moves])
    edges['recurs'] = np.where(false, share, np.nan)


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
  routes_lib.street_graph(world)  # Raises InputError without streets.
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


def forget_samples(
  path: str | Path, world: core.World, origin: provenance.Origin
) -> str:
  """Removes cached sequences if the model, the world or the code has changed.

  NAME.origin.json records their inputs.

  Args:
    path: text file of `write_samples`.
    world: world of the sequences.
    origin: inputs of the predictor.

  Returns:
    Reason for the removal; '' if the sequences are valid or absent.
  """
  path = Path(path)
  record, parts = path.with_suffix('.origin.json'), _parts(path)
  inputs = provenance.Reader().of(world, origin.inputs).inputs
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


def seal_samples(path: str | Path) -> None:
  """Records the hash of the sampled sequences, so that damage is noticed."""
  record = Path(path).with_suffix('.origin.json')
  now = files.read_record(record, _RECORD)
  files.write_json(record, {**now, 'sha256': files.sha256(path)})


def _parts(path: Path) -> Path:
  return path.with_name(path.name + '.parts')


def write_samples(drawing: Drawing, path: str | Path) -> None:
  """Samples routes into a text file; a killed run resumes.

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
  with progress.Progress('sample routes', num, 'sequences') as shown:
    for first, part in parts.items():
      if not part.exists():
        files.write_text(part, drawing.part(first))
      shown.update(min(CHUNK, num - first))
  files.write_text(
    path, ''.join(part.read_text('utf-8') for part in parts.values())
  )
  shutil.rmtree(_parts(path))
