"""Sample, train, score, reconstruct: a call for each binary.

Worlds, models, metrics and acceptance rules are objects, or specs such as
'maps(rows=6)'. Every call that writes goes on where an earlier one, in this
process or another, was stopped. `log` gets the lines that the binary prints.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wm import core
from wm.core import inputs, registry, schema
from wm.core.accept import Accept
from wm.data import exposure, pgn_games, pgn_ingest, published, sampling
from wm.data import store as stores
from wm.evaluation import query_plans
from wm.evaluation import scoring as scoring_lib
from wm.language import budget_plan, call_ledger, llm_predictor
from wm.library import loading as loading_lib
from wm.models.serving import user_objects
from wm.options import check, shown, takes
from wm.options.calls import (
  Amount,
  Asking,
  Loading,
  Path,
  Reconstruction,
  RouteSource,
  Sampling,
  Scoring,
  Share,
  Workers,
)
from wm.options.training import Training
from wm.runtime import compute, files, progress

if TYPE_CHECKING:
  import pandas as pd

Log = Callable[[str], None]
LEDGER = 'calls.jsonl'  # What calls of `ask` have used.


def no_log(line: str) -> None:
  """Discards a line of the log."""


@takes(options=Sampling, workers=Workers)
def sample(
  world: core.World | str,
  out: Path,
  options: Sampling | None = None,
  *,
  workers: Workers,
  log: Log = no_log,
) -> dict[str, stores.Store]:
  """Samples training and held-out sequences into OUT/data.

  Args:
    world: what to sample from.
    out: folder of the run.
    options: how much, in one object instead of keywords.
    workers: where chunks are sampled, to the same bytes.
    log: gets the world's facts, and the counts of each split.

  Returns:
    {'train': store, 'heldout': store}; `store.read(0, 5)` gives Sequences,
    and `store.to_parquet(path)` writes a file that `wm.ingest` reads.

  Raises:
    InputError: the world cannot be sampled, or `out` holds another run.
  """
  world = registry.resolve('world', world)
  asked = options or Sampling()
  manifests = sampling.make_dataset(world, out, asked, workers.jobs)
  return opened(out, manifests, log)


def opened(
  out: Path, manifests: dict[str, Any], log: Log
) -> dict[str, stores.Store]:
  """Opens both splits of OUT/data.

  Logs the world's counts in one line, how its files were read, and of each
  split the size and the number of dropped sequences.
  """
  facts = manifests['train']['world_facts']
  counts = [f'{k} {n}' for k, n in facts.items() if not isinstance(n, str)]
  texts = [f'{k}: {text}' for k, text in facts.items() if isinstance(text, str)]
  for line in ([', '.join(counts)] if counts else []) + texts:
    log(line)
  for split, manifest in manifests.items():
    dropped = ''.join(f', {k} {n}' for k, n in manifest['counts'].items())
    log(
      f'{out}/data/{split}: {manifest["rows"]} sequences, '
      f'{manifest["tokens"]} tokens{dropped}'
    )
  data = pathlib.Path(out) / 'data'
  return {split: stores.open(data / split) for split in sampling.SPLITS}


@takes(workers=Workers)
def ingest(
  pgn: Path | Sequence[Path],
  out: Path,
  *,
  world: core.World | str = pgn_ingest.WORLD,
  games: Amount = 0,
  lost: Share = inputs.LOST,
  workers: Workers,
  log: Log = no_log,
) -> dict[str, stores.Store]:
  """Reads games of PGN files into OUT/data, split by what a game is.

  Args:
    pgn: files, plain or packed; or Parquet files of sequences, as by
      `wm.sample(...)['train'].to_parquet(path)`, see `ingest_text`.
    out: folder of the run.
    world: chess, or that of Parquet files; longer games than its `length` are
      cut.
    games: most good games; 0 is all.
    lost: share of a file that may be left out for one reason, such as null
      moves; what a file loses more is refused with the reason.
    workers: processes that read PGN; other files are read in one.
    log: gets what was left out and why; damage is told on stderr.

  Returns:
    As `sample`.
  """
  files = [pgn] if isinstance(pgn, str | pathlib.Path) else list(pgn)
  if all(str(name).endswith('.parquet') for name in files):
    if workers.jobs > 1:
      raise core.InputError(
        f'jobs={workers.jobs}: Parquet files are read in one process'
      )
    return ingest_text(files, out, world, lost=lost, log=log)
  played, names = registry.resolve('world', world), [*map(str, files)]
  asked = played, names, out, games, workers.jobs, lost
  manifests = pgn_ingest.make_dataset(*asked)
  report = manifests['train']['ingest']
  for name, what in report['damage'].items():
    progress.say(f'warning: {name}: {what}')
  for line in pgn_ingest.lines(report):
    log(line)
  if not manifests['heldout']['rows']:
    progress.say(
      f'warning: {out} has no held-out game, which training needs: a hash of '
      f'each game holds out {pgn_games.HELDOUT} in {pgn_games.BUCKETS:,}; '
      'expected more games, or lines and heldout files (--text_file)'
    )
  return opened(out, manifests, log)


@takes(training=Training)
def train(
  world: core.World | str,
  model: core.Model | str,
  out: Path,
  training: Training | None = None,
  *,
  log: Log = no_log,
) -> loading_lib.Run:
  """Trains a model on OUT/data, or resumes a stopped run.

  Args:
    world: the world of the sequences in OUT/data, see `sample`.
    model: the model to train.
    out: folder of the run.
    training: all of the keywords below in one object, instead of these.
    log: gets the summary as JSON.

  Returns:
    The run; `load_predictor` and `score` take it. Its folder also holds
    exposure.json, see `wm.data.exposure`.

  Raises:
    InputError: unusable data or options, or OUT holds another run.
    LossError: the loss is not finite.
  """
  # JAX, Flax and Orbax, which other calls do without.
  from wm.training import loop, run_log, setup

  training = setup.resolve_cluster(training or Training())
  summary = loop.train(world, model, out, training)
  _clear_failure(out, 'train')
  if training.process_id == 0:  # It writes for all.
    trained_on = registry.resolve('world', world)
    folder, step = pathlib.Path(out), summary['best_step']
    training_loss = run_log.training_loss(folder, step)
    exposure.record(trained_on, folder, training.data, summary, training_loss)
  log(json.dumps(summary))
  return loading_lib.Run(pathlib.Path(out), summary)


def _clear_failure(folder: Path, stage: str) -> None:
  """Removes the mark of a failed job once its stage has succeeded."""
  failed = pathlib.Path(folder) / 'failed.json'
  if failed.exists() and files.read_record(failed, {}).get('stage') == stage:
    failed.unlink(missing_ok=True)


def metrics_of(
  metrics: core.Metric | str | Sequence[core.Metric | str],
  accept: Accept | str | None = None,
  overrides: str | None = None,
) -> list[core.Metric]:
  """Metrics from objects or specs, with some of their fields replaced.

  Args:
    metrics: objects or specs.
    accept: acceptance rule of all metrics that have one; None leaves theirs.
    overrides: fields of all metrics that have them, written as in a spec.

  Raises:
    InputError: bad specs, or no metric has a field of `overrides`.
  """
  several = [metrics] if isinstance(metrics, str | core.Metric) else metrics
  chosen: list[Any] = [registry.resolve('metric', m) for m in several]
  names_of = [{field.name for field in dataclasses.fields(m)} for m in chosen]
  _, unnamed, values = registry.parse(f'metric_overrides({overrides or ""})')
  text = f'metric_overrides={overrides!r}: no metric here has a field'
  for name in (*map(repr, unnamed), *values):
    every = sorted(set().union(*names_of))
    inputs.check_known(name, every, f'{text} {name}')
  if accept is not None:
    values['accept'] = registry.spec(registry.resolve('accept', accept))
  return [
    dataclasses.replace(m, **{k: x for k, x in values.items() if k in names})
    for m, names in zip(chosen, names_of, strict=True)
  ]


@takes(scoring=Scoring)
def score(
  source: loading_lib.Source,
  metrics: core.Metric | str | Sequence[core.Metric | str],
  world: core.World | str | None = Scoring.world,
  *,
  out: Path | None = None,
  untrained: loading_lib.Source | None = None,
  scoring: Scoring,
  log: Log = no_log,
) -> pd.DataFrame:
  """Scores a model by metrics, against the world's rules.

    wm.score('runs/city', 'compression(trials=100)')
    wm.score(lambda tokens: my_logits(tokens), ['next_token()'], 'maps()')
    wm.score(torch_module, ['probe()'], world, untrained=fresh_module)
    wm.score((flax_module, params), ['next_token()'], world)

  Args:
    source: a run, a model or its spec, a predictor; or an object of your own: a
      PyTorch module, a Flax module (nnx; linen with its parameters), a model of
      Hugging Face, or any function from tokens [B, L] to logits. What else it
      may have, and settings such as its longest input, are in `wm.wrap`.
    metrics: what to measure.
    world: the truth; None is the world that a run was trained on.
    out: folder for scores.json, rows.parquet (every trial) and breakdown.json.
      None is the folder of a `wm.Run`, and keeps no files of any other source.
    untrained: the same with fresh weights. It is the control of probes, and its
      own entries follow, as 'NAME, untrained' (files in OUT/untrained).
    scoring: fields of metrics; and which predictor, `model` being the spec that
      a run must be of and `name` what tables call it, see `load_predictor`.
    log: gets lines on cached results, the table and the files.

  Returns:
    A data frame: a row for each quantity of `metrics`, with the columns of
    `wm.evaluation.results`. Values that were not measured are NaN.

  Raises:
    InputError: bad specs, a model that does not do what it should, or `out`
      holds scores of another run.
  """
  return _frame(entries_of(source, scoring, out, untrained, log=log))


def entries_of(
  source: loading_lib.Source,
  scoring: Scoring,
  out: Path | None = None,
  untrained: loading_lib.Source | None = None,
  *,
  log: Log = no_log,
) -> list[dict[str, Any]]:
  """Entries of `score`, which has a row for each."""
  asked = metrics_of(scoring.metrics, scoring.accept, scoring.metric_overrides)
  loaded = loading_lib.load_predictor(source, scoring.world, loading=scoring)
  if out is None and isinstance(source, loading_lib.Run):
    out = source.folder
  if untrained is None:
    return score_predictor(loaded, asked, scoring, out, log)
  fresh = loading_lib.load_predictor(untrained, loaded.world)
  fresh = dataclasses.replace(fresh, name=f'{loaded.name}, untrained')
  control = user_objects.with_untrained(loaded.predictor, fresh.predictor)
  loaded = dataclasses.replace(loaded, predictor=control)
  entries = score_predictor(loaded, asked, scoring, out, log)
  folder = None if out is None else pathlib.Path(out) / 'untrained'
  return entries + score_predictor(fresh, asked, scoring, folder, log)


def _frame(entries: list[dict[str, Any]]) -> pd.DataFrame:
  from wm.library import score_frame  # Pandas takes .2 s to import.

  return score_frame.ScoreFrame(entries)


def score_predictor(
  loaded: scoring_lib.Loaded,
  asked: Sequence[core.Metric],
  scoring: Scoring,
  out: Path | None,
  log: Log,
) -> list[dict[str, Any]]:
  """Entries of one predictor; files in `out`, if that is given."""
  with contextlib.ExitStack() as held:
    folder = out or held.enter_context(tempfile.TemporaryDirectory())
    held.enter_context(compute.one_blas())
    held.enter_context(files.stage_lock(folder, 'score'))
    entries = scoring_lib.run(
      loaded,
      asked,
      seed=scoring.seed,
      out=folder,
      max_calls=scoring.max_calls,
      log=log,
    )
  log(scoring_lib.table(entries))
  cautions = [text for entry in entries for text in entry['cautions']]
  for text in dict.fromkeys(cautions):
    log(f'caution: {loaded.name} {text}')
  for line in loaded.predictor.diagnostics():
    log(line)
  if out is not None:
    _clear_failure(out, 'score')
    log(f'written: {out}/scores.json, rows.parquet, breakdown.json')
  return entries


@takes(scoring=(Scoring, 'seed', 'metric_overrides', 'name'), asking=Asking)
def ask(
  model: core.Model | str,
  metrics: core.Metric | str | Sequence[core.Metric | str],
  world: core.World | str,
  out: Path | None = None,
  *,
  scoring: Scoring,
  asking: Asking,
  log: Log = no_log,
) -> pd.DataFrame:
  """Scores a language model within a budget.

    wm.ask("language(model='openai/gpt-5')", 'compression()', 'maps()',
           'runs/gpt', budget='5usd', prices='prices.json')

  All calls that were made for `out` count, in earlier runs too; their usage is
  in OUT/calls.jsonl. The plan and its steps are in OUT/budget.json, results in
  the files of `wm.score`. How trials are shared out is in
  `wm.language.budget_plan`.

  Args:
    model: a language model or its spec.
    metrics: of which no more trials are run than they say.
    world: the truth.
    out: folder of the results; a dry run needs none.
    scoring: seed, name and fields of metrics.
    asking: the budget.
    log: gets the plan, and what was used.

  Returns:
    As `wm.score`; no rows of a dry run.

  Raises:
    InputError: the budget is too small for the first trials, prices are
      unknown, or bad specs.
  """
  asked = metrics_of(metrics, None, scoring.metric_overrides)
  limit, unit = call_ledger.parse_budget(asking.budget)
  loaded = loading_lib.load_predictor(model, world, loading=scoring)
  predictor = loaded.predictor
  if not isinstance(predictor, llm_predictor.LanguageModel):
    raise core.InputError(
      f'{loaded.name} is no language model; expected such as '
      "language(model='openai/gpt-5')"
    )
  backend: Any = predictor.backend
  name, prices = backend.settings.model, str(asking.prices or '')
  cost = call_ledger.model_cost(name, prices)
  if out is None and not asking.dry_run:
    raise core.InputError('out=None; expected a folder, or dry_run=True')
  calls = None if out is None else pathlib.Path(out) / LEDGER

  def plan() -> budget_plan.BudgetPlan:
    ledger = call_ledger.CallLedger(limit, unit, cost, calls)
    return budget_plan.BudgetPlan(
      asked, predictor, loaded.world, scoring.seed, ledger
    )

  if out is None or asking.dry_run:
    plan().tell(log, prompts=True)
    return _frame([])
  with files.stage_lock(out, 'ask'):
    bought = plan()
    bought.tell(log)
    metrics = bought.run()
    files.write_json(pathlib.Path(out) / 'budget.json', bought.record())
  # The plan has asked all questions: scoring finds their answers.
  scoring = dataclasses.replace(scoring, max_calls=query_plans.NO_LIMIT)
  entries = score_predictor(loaded, metrics, scoring, out, log)
  for line in bought.lines():
    log(line)
  return _frame(entries)


@takes(routes=RouteSource, loading=(Loading, 'checkpoint', 'model', 'name'))
def reconstruct(
  source: loading_lib.Source | None,
  out: Path,
  world: core.World | str | None = None,
  options: Reconstruction | None = None,
  *,
  accept: Accept | str = 'epsilon(0.01)',
  routes: RouteSource,
  loading: Loading,
  log: Log = no_log,
) -> dict[str, Any]:
  """Reconstructs the street map that routes imply, and draws it into `out`.

  Args:
    source: the model that draws routes, see `load_predictor`; None if `samples`
      is given.
    out: folder for summary.json, edges.csv, map.html (which also
      shows routes and their directions), map_*.png and .svg.
    world: the true map.
    options: settings of the algorithm, its control and its seed.
    accept: rule that routes are sampled under.
    routes: a file of routes; or the number to sample, and their end points.
    loading: choice of the predictor, see `load_predictor`; the seed is that
      of `options`. Titles of maps show its name.
    log: gets the counts and the files.

  Returns:
    The content of OUT/summary.json.
  """
  from wm.recon import run as recon  # Pandas, which other calls do without.

  options = options or Reconstruction()
  check(routes)
  if routes.samples is not None:
    num, pairs = routes.num, routes.pairs
    if (num, pairs) != (RouteSource.num, RouteSource.pairs):
      raise core.InputError(
        f'samples={routes.samples} and num={num}, pairs={pairs!r} were given: '
        'expected no number or pairs, which are of routes sampled from a model'
      )
    if source is not None:
      raise core.InputError(
        f'source={shown(source)} and samples={routes.samples} were given: '
        'expected source=None'
      )
    if world is None:
      raise core.InputError("samples need their world, such as world='maps()'")
    world = registry.resolve('world', world)
    summary = recon.from_file(world, routes.samples, out, options, loading.name)
  else:
    if source is None:
      raise core.InputError('source or samples is needed')
    loading = dataclasses.replace(loading, seed=options.seed)
    summary = recon.from_model(
      loading_lib.load_predictor(source, world, loading=loading),
      out,
      options,
      num=routes.num,
      accept=registry.resolve('accept', accept),
      pairs=routes.pairs,
      log=log,
    )
  for fact, value in recon.facts(summary):
    log(f'{fact}: {value}')
  log(f'written: {out}/summary.json, edges.csv, map.html, map_*')
  return summary


def ingest_text(
  files: Path | Sequence[Path],
  out: Path,
  world: core.World | str,
  *,
  heldout: Path | Sequence[Path] = (),
  tokens: Path | Mapping[str, str | int] = '',
  lost: Share = inputs.LOST,
  log: Log = no_log,
) -> dict[str, stores.Store]:
  """Reads files of sequences, a line each, into OUT/data.

  Args:
    files: training sequences in the published text format, see `wm.data.text`.
    out: folder of the run.
    world: its vocabulary and rules apply. Lines that are illegal, too long or
      without an end are dropped.
    heldout: held-out sequences; training lines of the same split key (on a
      map: origin and destination) are left out. Without them the world divides
      `files` by split key, one in 20 held out.
    tokens: token of the world -> its text or id in the files; or a JSON or CSV
      file with this table, see `wm.describe('model', 'user')`. '' if the files
      have the world's own tokens, or games in standard notation.
    lost: share of the lines that may be left out for one reason, such as
      illegal ones; files that lose more are refused with the reason.
    log: gets the size of each split, and the numbers of dropped lines.

  Returns:
    The stores of both splits, as from `sample`.

  Raises:
    InputError: an unusable file, an unknown token with its line, no sequence
      left, or `out` holds other data.
  """
  world = registry.resolve('world', world)
  paths, aliases = (_list(files), _list(heldout)), _aliases_of(tokens, world)
  manifests = published.ingest_text(world, *paths, out, aliases, lost)
  return opened(out, manifests, log)


def _aliases_of(
  tokens: Path | Mapping[str, str | int], world: core.World
) -> dict[str, str]:
  """Text in files -> token of the world; InputError for a bad table."""
  if not tokens:
    return {}
  label = 'tokens=' if isinstance(tokens, Mapping) else f'tokens={tokens}'
  table = user_objects.read_tokens(tokens, 'ingest')
  schema.check(table, schema.Dictionary(str | int), label)
  aliases: dict[str, str] = {}
  for token in world.vocab[1:]:
    text = f'{label} has no {token!r} of the world'
    inputs.check_known(token, table, text, 8)
    if (other := aliases.setdefault(str(table[token]), token)) != token:
      raise core.InputError(
        f'{label} has {table[token]!r} for {other!r} and for {token!r}; '
        'expected one each'
      )
  return aliases


def _list(files: Path | Sequence[Path]) -> list[Path]:
  return [files] if isinstance(files, str | pathlib.Path) else list(files)
