"""The report's section of each model's worst trials, as HTML."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence

from wm import core
from wm.core import registry
from wm.reporting import tables, terms, worst
from wm.reporting.collect import Run
from wm.reporting.scenes import Painter, Scene

TITLE = 'The worst trials'
NOTE = (
  'Of each headline quantity the trials with the lowest values below 1, up to '
  '{most}; equal ones in an order of their states that is the same for every '
  'model, each state once while there are others. Marked is the token at which '
  'model and world part.'
)


def section(runs: Sequence[Run], groups: Sequence[list[worst.Group]]) -> str:
  """HTML of all runs' worst trials, as `worst.groups` gives them; or ''."""
  if not any(groups):
    return ''
  note = NOTE.format(most=worst.MOST)
  if any(run.seeds for run in runs):
    note += ' Of a model of several seeds they are those of the first.'
  parts = [f'<h2>{TITLE}</h2><p class="note">{note}</p>\n']
  for run, mine in zip(runs, groups, strict=True):
    if mine:
      parts += _of_run(run, mine)
  return ''.join(parts)


def _of_run(run: Run, groups: Sequence[worst.Group]) -> list[str]:
  painter, missing = None, ''
  if any(group.trials for group in groups):
    try:
      painter = Painter(run.world)
    except core.InputError as error:
      missing = f'<p class="note">No pictures: {html.escape(str(error))}</p>\n'
  title = f'{html.escape(run.name)} <small>{html.escape(run.world)}</small>'
  parts = [f'<h3>{title}</h3>\n', missing]
  if painter:
    legend = html.escape(terms.picture(run.world))
    parts.append(f'<p class="note">In the pictures: {legend}</p>\n')
  perfect = [
    f'{g.spec}: {g.quantity} ({g.measured})' for g in groups if not g.short
  ]
  if perfect:
    said = html.escape(', '.join(perfect))
    parts.append(f'<p>No trial below 1 in {said}.</p>\n')
  return parts + [_group(group, painter) for group in groups if group.trials]


def _group(group: worst.Group, painter: Painter | None) -> str:
  lowest = tables.number(group.trials[0].value)
  title = html.escape(f'{group.metric}: {group.quantity}')
  line = (
    f'<b>{title}</b>, {group.short} of {group.measured} trials below 1, '
    f'lowest {lowest}'
  )
  declared = registry.find('metric', group.metric).pictures
  tells = declared.get(group.quantity, 'what the model did')
  shown = ''.join(
    _trial(trial, tells, painter.rows(trial) if painter else [])
    for trial in group.trials
  )
  return (
    f'<details><summary>{line}</summary><p class="note">'
    f'<code>{html.escape(group.spec)}</code></p>{shown}</details>\n'
  )


def _trial(
  trial: worst.Trial, tells: str, scenes: Sequence[Sequence[Scene]]
) -> str:
  names = ('Prefix',)
  if len(trial.prefixes) == 2:
    names = ('First prefix', 'Other prefix')
  rows = [
    (name, html.escape(prefix))
    for name, prefix in zip(names, trial.prefixes, strict=False)
  ]
  if not trial.prefixes:
    rows = [('State', html.escape(state)) for state in trial.states]
  if trial.suffix:
    rows.append((f'Continuation: {tells}', _suffix(trial)))
  text = ''.join(
    f'<dt>{name}</dt><dd><code>{words}</code></dd>' for name, words in rows
  )
  pictures = ''.join(
    f'<div>{"".join(map(_scene, row))}</div>' for row in scenes
  )
  number, value = html.escape(trial.number), tables.number(trial.value)
  return (
    f'<section class="trial"><h4>Trial {number}: {value}</h4>'
    f'<dl>{text}</dl>{pictures}</section>\n'
  )


def _suffix(trial: worst.Trial) -> str:
  """Tokens, the one at `wrong_at` marked, those after it pale."""
  words = [html.escape(word) for word in trial.suffix]
  if not 1 <= trial.wrong_at <= len(words):
    return ' '.join(words)
  at = trial.wrong_at - 1
  marked = [*words[:at], f'<mark>{words[at]}</mark>']
  rest = words[at + 1 :]
  if rest:
    marked.append(f'<span class="after">{" ".join(rest)}</span>')
  return ' '.join(marked)


def _scene(scene: Scene) -> str:
  """As an image, so that nothing in a drawing touches the page."""
  data = base64.b64encode(scene.drawing.encode()).decode('ascii')
  caption = html.escape(scene.caption)
  return (
    f'<figure class="scene"><img alt="{caption}" '
    f'src="data:image/svg+xml;base64,{data}">'
    f'<figcaption>{caption}</figcaption></figure>'
  )


def markdown(groups: Sequence[list[worst.Group]]) -> str:
  """A line for report.md, which has no pictures; '' where there is none."""
  if not any(group.trials for mine in groups for group in mine):
    return ''
  return f'## {TITLE}\n\nWith pictures in [report.html](report.html).\n'
