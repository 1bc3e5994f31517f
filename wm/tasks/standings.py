"""How the runs of a sweep stand: read from folders, ranked, put in a table."""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Collection, Sequence
from typing import Any

from wm import core
from wm.core import inputs
from wm.runtime import files
from wm.tasks import grid

FOLDER = 'runs'  # OUT/runs/NAME is a run's.
TRAIN, SCORE = 'train', 'score'  # Stages of a run.
DONE, FAILED, RUNNING, WAITING = 'done', 'failed', 'running', 'waiting'
_KEPT = (
  *('parameters', 'step', 'best_loss', 'best_loss_moves', 'best_step'),
  'heldout_loss',
  *('skipped', 'tokens', 'seconds'),
)


@dataclasses.dataclass(frozen=True)
class Standing:
  """A run and what is known of it.

  Attributes:
    status: 'done', 'failed', 'running' or 'waiting'.
    found: values of its train.json, empty until it is trained; they stay
      while it is scored, and if that fails.
    error: one line on why it failed, else ''.
  """

  run: grid.Run
  status: str
  found: dict[str, Any]
  error: str = ''

  @property
  def loss(self) -> float:
    """Best held-out loss after the prompt; infinite where there is none.

    Runs by earlier versions kept that of all tokens.
    """
    losses = map(self.found.get, ('best_loss_moves', 'best_loss'))
    return next((loss for loss in losses if loss is not None), math.inf)


@dataclasses.dataclass(frozen=True)
class Candidate:
  """Runs that differ in their seed alone.

  Attributes:
    labels: axis -> label, without the seed's.
    members: one for each seed.
  """

  labels: dict[str, str]
  members: tuple[Standing, ...]

  @property
  def loss(self) -> float:
    """Mean over the seeds of the best held-out loss; infinite if one failed."""
    return sum(member.loss for member in self.members) / len(self.members)

  @property
  def ended(self) -> bool:
    """Whether every seed is done or has failed."""
    return all(member.status in (DONE, FAILED) for member in self.members)


def folder(out: pathlib.Path, run: grid.Run) -> pathlib.Path:
  """Folder of a run."""
  return out / FOLDER / run.name


def read(
  out: pathlib.Path, runs: Sequence[grid.Run], running: Collection[str] = ()
) -> list[Standing]:
  """Reads how each run stands; `running` names those under way here."""
  rows = []
  for run in runs:
    where = folder(out, run)
    trained, failed = where / 'train.json', where / 'failed.json'
    summary = _kept(files.read_record(trained, {})) if trained.exists() else {}
    error = files.read_record(failed, {'error': str}) if failed.exists() else {}
    if run.name in running:
      rows.append(Standing(run, RUNNING, summary))
    elif error and error.get('stage', TRAIN) == (SCORE if summary else TRAIN):
      rows.append(Standing(run, FAILED, summary, error['error']))
    else:
      rows.append(Standing(run, DONE if summary else WAITING, summary))
  return rows


def _kept(summary: dict[str, Any]) -> dict[str, Any]:
  """What the table holds of a train.json."""
  best = {key: x for key, x in summary.items() if key.startswith('best_')}
  return {**{key: summary.get(key) for key in _KEPT}, **best}


def groups(
  standings: Sequence[Standing], per: Sequence[str]
) -> dict[tuple[str, ...], list[Candidate]]:
  """Candidates by their labels on the axes `per`, the best first.

  Raises:
    InputError: the grid has no such axis.
  """
  together: dict[tuple, list[Standing]] = {}
  for standing in standings:
    labels = standing.run.labels
    unknown = [name for name in per if name not in labels]
    if unknown:
      raise core.InputError(
        f'--per={unknown[0]}: no axis of the grid is called so; available: '
        + (', '.join(labels) or 'none')
      )
    key = tuple(item for item in labels.items() if item[0] != grid.SEED)
    together.setdefault(key, []).append(standing)
  ranked: dict[tuple[str, ...], list[Candidate]] = {}
  for key, members in together.items():
    candidate = Candidate(dict(key), tuple(members))
    group = tuple(members[0].run.labels[name] for name in per)
    ranked.setdefault(group, []).append(candidate)
  return {
    group: sorted(candidates, key=lambda c: (not c.ended, c.loss))
    for group, candidates in ranked.items()
  }


def write(
  out: pathlib.Path, standings: Sequence[Standing], per: Sequence[str]
) -> None:
  """OUT/sweep.json and OUT/sweep.md."""
  rows = []
  for standing in standings:
    run = dataclasses.asdict(standing.run)
    about = {'status': standing.status, **standing.found}
    error = {'error': standing.error} if standing.error else {}
    rows.append({'name': standing.run.name, **about, **error, **run})
  files.write_json(out / 'sweep.json', {'per': list(per), 'runs': rows})
  files.write_text(out / 'sweep.md', _page(standings, per))


def winners(path: str | pathlib.Path, top: int) -> list[grid.Run]:
  """The `top` best candidates of each group of a sweep that has ended.

  Each comes as a run: its first seed's, without the seed.

  Raises:
    InputError: no such sweep, or some of its runs have not ended.
  """
  path = pathlib.Path(path) / 'sweep.json'
  book = files.read_json(path)
  with inputs.reading(path, 'the table of a sweep'):
    standings = [_standing(row, str(path)) for row in book['runs']]
    per = book['per']
    if not all(set(per) <= s.run.labels.keys() for s in standings):
      raise ValueError(f'per is {per}')
    open_ = sum(s.status not in (DONE, FAILED) for s in standings)
    if open_:
      raise core.InputError(
        f'{path}: {open_} of {len(standings)} runs have not ended; go on with '
        'that sweep first'
      )
    best_runs = []
    for group, candidates in groups(standings, per).items():
      best = [c for c in candidates if math.isfinite(c.loss)][:top]
      if not best:
        raise core.InputError(f'{path}: every run of {", ".join(group)} failed')
      best_runs += [_without_seed(candidate) for candidate in best]
    return best_runs


def _standing(row: Any, where: str) -> Standing:
  """A row of the table; raises InputError."""
  kinds = {'labels': dict, 'flags': dict, 'chosen': dict, 'status': str}
  files.record(row, where, kinds, dict.fromkeys(_KEPT, int | float | None))
  run = grid.Run(row['labels'], row['flags'], row['chosen'])
  return Standing(run, row['status'], _kept(row))


def _without_seed(candidate: Candidate) -> grid.Run:
  run = candidate.members[0].run
  chosen = {key: x for key, x in run.chosen.items() if key != grid.SEED}
  return grid.Run(candidate.labels, run.flags, chosen)


def _page(standings: Sequence[Standing], per: Sequence[str]) -> str:
  counts = [
    f'{sum(s.status == status for s in standings)} {status}'
    for status in (DONE, FAILED, RUNNING, WAITING)
  ]
  lines = [f'# Sweep: {len(standings)} runs; {", ".join(counts)}', '']
  lines += [
    'Losses are held-out, in nats, at the best evaluation of a run.',
    '',
  ]
  ranked = groups(standings, per)
  axes = [name for name in standings[0].run.labels if name != grid.SEED]
  more = _more(standings)
  head = [*axes, 'runs', 'loss', 'spread', *more]
  head += ['step', 'seconds', 'status']
  best = [c[0] for c in ranked.values() if c[0].ended]
  lines += [f'## Best{" per " + ", ".join(per) if per else ""}', '']
  lines += _table(head, [_cells(candidate, axes, more) for candidate in best])
  lines += ['## All, the best first', '']
  cells = [_cells(c, axes, more) for group in ranked.values() for c in group]
  return '\n'.join(lines + _table(head, cells))


def _more(standings: Sequence[Standing]) -> list[str]:
  """Names of what was evaluated besides losses and their parts."""
  keys = {key: None for standing in standings for key in standing.found}
  names = [key.removeprefix('best_') for key in keys if 'best_' in key]
  return [n for n in names if n != 'step' and not n.startswith('loss')]


def _cells(
  candidate: Candidate, axes: Sequence[str], more: Sequence[str]
) -> list[str]:
  done = [m for m in candidate.members if m.found]
  losses = [member.loss for member in done]
  errors = [m.error for m in candidate.members if m.error]
  statuses = sorted({member.status for member in candidate.members})
  several = len(losses) > 1
  return [
    *(candidate.labels[name] for name in axes),
    f'{len(done)}/{len(candidate.members)}',
    f'{sum(losses) / len(losses):.6g}' if losses else '',
    f'{max(losses) - min(losses):.2g}' if several else '',
    *(_mean([m.found.get(f'best_{name}') for m in done]) for name in more),
    ', '.join(str(m.found['best_step']) for m in done),
    f'{sum(m.found["seconds"] or 0 for m in done):.0f}' if done else '',
    ', '.join(statuses) + (f': {errors[0]}' if errors else ''),
  ]


def _mean(values: Sequence[float | None]) -> str:
  measured = [value for value in values if value is not None]
  if not measured or len(measured) < len(values):
    return ''
  return f'{sum(measured) / len(measured):.4g}'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
  lines = [head, ['---'] * len(head), *rows]
  cells = [[text.replace('|', r'\|') for text in line] for line in lines]
  return [*('| ' + ' | '.join(line) + ' |' for line in cells), '']
