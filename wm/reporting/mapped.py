"""Puts the counts of reconstructed maps beside those that papers print."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from wm.core import registry
from wm.reporting import papers, tables, unlike
from wm.reporting.collect import Run
from wm.reporting.papers import Trained

# Columns of reconstructed maps, by the summary's key.
_COUNTS = (
  'sequences',
  'directions',
  'ill_formed',
  'failed',
  'true_edges',
  'new_edges',
  'unused_edges',
)


_RATES = {
  'illegal_directions': 'illegal directions [95 %]',
  'failed_routes': 'failed share [95 %]',
}
_PRINTED = 'directions in the paper'


def map_table(runs: Sequence[Run]) -> tables.Table | None:
  """Tables the counts of reconstructed maps beside the paper's; None if no run
  has a map.
  """
  mapped = [(run, run.summary) for run in runs if run.summary]
  if not mapped:
    return None
  printed = [_mapped(run, summary) for run, summary in mapped]
  keys = (*_varied([summary for _, summary in mapped]), *_COUNTS)
  apart = [differs for _, differs in printed if differs]
  shared = [
    x
    for x in (apart or [[]])[0]
    if all(x in differences for differences in apart)
  ]
  head, frame = 'failed in the paper', []
  several = any(_over(summary) for _, summary in mapped)
  for (run, summary), (value, differs) in zip(mapped, printed, strict=True):
    particular = ', '.join(x for x in differs if x not in shared)
    shown = f'{value} ({particular})' if particular else value
    frame.append(
      {
        'model': run.name,
        **{key.replace('_', ' '): str(summary.get(key, '')) for key in keys},
        **{head: _rate(summary.get(key)) for key, head in _RATES.items()},
        **({'failed over orders': _over(summary)} if several else {}),
        **_directions(run.name, summary),
        head: '' if differs else value,
        f'{head} ({", ".join(shared)})': shown if differs else '',
      }
    )
  table = pd.DataFrame(frame, dtype=object)
  # Summaries or papers may lack these.
  optional = 'directions', *_RATES.values(), *table.columns[-4:]
  empty = [column for column in optional if not any(table[column])]
  note = (
    'True edges used, false edges added, and true edges never used, when the '
    "model's routes are fitted with as few false streets as the algorithm "
    'finds.'
  )
  if not {*_RATES.values()} & {*empty}:
    note += (
      ' Illegal directions: the share of the directions that routes take which '
      'no street has, up to the first one of each route, as the place is known '
      'no further; intervals are clustered by route.'
    )
  if _PRINTED not in empty:
    note += (
      ' What the paper prints as directions (appendix B.2) are the characters '
      'of the file with the ends of its lines, less two of each.'
    )
  if not {*table.columns[-2:]} <= {*empty}:
    note += (
      " The paper's counts are of one order whose seed is not known; those "
      'that do not compare have a column of their own, headed by what the '
      'paper has and the run has not.'
    )
  return tables.Table('Reconstructed maps', table.drop(columns=empty), note)


def _rate(rate: Mapping[str, Any] | None) -> str:
  """Formats a share of a summary; '' of one that lacks it."""
  return tables.interval({**rate}) if rate else ''


def _directions(name: str, summary: Mapping[str, Any]) -> dict[str, str]:
  """Returns what is printed as the directions of the same routes, if any, and
  what that is.
  """
  key, routes = papers.model_key(name), summary.get('samples_sha256')
  for source in itertools.chain(*papers.papers().values()):
    reconstructions = source.reconstructions
    if (
      reconstructions
      and routes
      and routes == reconstructions.samples_sha256.get(key)
    ):
      counts = (
        str(reconstructions.directions[key]),
        str(summary.get('characters', '')),
      )
      return dict(zip((_PRINTED, 'characters'), counts, strict=True))
  return {_PRINTED: '', 'characters': ''}


def _varied(summaries: Sequence[Mapping[str, Any]]) -> list[str]:
  """Returns the limits in which reconstructions differ."""
  limits = 'max_degree', 'max_miles'
  return [key for key in limits if len({s.get(key) for s in summaries}) > 1]


def _over(summary: Mapping[str, Any]) -> str:
  """Returns the mean and range of failures over orders; '' of one order."""
  orders = summary.get('orders', {})
  if orders.get('n', 1) < 2:
    return ''
  over = orders['failed']
  return f'{over["mean"]:.0f} ({over["least"]} to {over["most"]})'


def _mapped(run: Run, summary: Mapping[str, Any]) -> tuple[str, list[str]]:
  """Returns the count printed for a run's name ('' if none), and what
  differs.
  """
  key = papers.model_key(run.name)
  for source in itertools.chain(*papers.papers().values()):
    reconstructions = source.reconstructions
    if reconstructions is None or key not in reconstructions.failed:
      continue
    failed = reconstructions.failed[key]
    limits: tuple[Any, ...] = tuple(map(summary.get, reconstructions.limits))
    nearest = limits if limits in failed else next(iter(failed))
    world = str(summary.get('world', ''))
    settings = {
      **reconstructions.settings,
      **dict(zip(reconstructions.limits, nearest, strict=True)),
    }
    differs = [
      *unlike.place(source.facts, source.place, world),
      *unlike.lacking(settings, {'pairs': 'uniform', **summary}),
      *(['shuffled'] if summary.get('order') == 'file' else []),
    ]
    if summary.get('samples_sha256') != reconstructions.samples_sha256[key]:
      differs += _sampled(
        source.models[key], reconstructions.accept, run, summary
      )
    return str(failed[nearest]), differs
  return '', []


def _sampled(
  trained: Trained, accept: str, run: Run, summary: Mapping[str, Any]
) -> list[str]:
  """Returns how the paper's routes were sampled, as far as these were not."""
  world, rule = summary.get('world'), summary.get('accept')
  rule = registry.spec(registry.make('accept', rule)) if rule else None
  return [
    *unlike.lacking(
      trained.world, unlike.filled('world', world) if world else {}
    ),
    *unlike.lacking({'accept': accept}, {'accept': rule}),
    *unlike.size(
      trained.model, summary.get('model_spec') or run.training.get('model')
    ),
    *unlike.training(trained, run),
  ]
