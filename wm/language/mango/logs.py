"""The tables of MANGO from logs of Inspect, live ones or converted."""

from __future__ import annotations

import collections
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wm import core
from wm.language.mango import page as pages
from wm.language.mango import questions, rows, tables
from wm.language.mango.questions import KINDS
from wm.language.mango.scoring import Question, Score
from wm.language.rescored import Rescored
from wm.worlds.text_game import maze as mazes
from wm.worlds.text_game import readers

if TYPE_CHECKING:
  from inspect_ai.log import EvalLog


# Kinds of minigames, without the map and with it.
MINIGAMES = 'minigame', 'minigame with map'


def scored(logs: Sequence[EvalLog]) -> Iterator[tuple[Any, ...]]:
  """Rows of all samples that were scored, as `rows.frame` takes them.

  A model in the setting 'simple' is called MODEL-S, as in the paper, and one
  that is asked for a function call MODEL, function. Of several scores of a
  sample, as `inspect score --action append` makes them, the last one counts.
  """
  named = {'simple': '-S', 'function': ', function'}
  for log, (model, how) in zip(logs, names(logs), strict=True):
    for sample in log.samples or []:
      known = sample.metadata or {}
      for score in reversed((sample.scores or {}).values()):
        found = score.metadata or {}
        if set(Score._fields) <= set(found):
          fields = {name: found[name] for name in Score._fields}
          name = model + named.get(known.get('setting', ''), '') + how
          yield rows.row(name, questions.asked_of(known), Score(**fields))
          break
        if known.get('task') == 'mango_minigames' and 'success' in found:
          won = Score(found['failure'], found['success'], moves=1)
          yield rows.row(model + how, _minigame(known), won)
          break


# Arguments of the tasks that change what is asked or how it is judged. The
# setting is in names already, and what else there is chooses questions.
ASKED = (
  *('generation', 'budget', 'forced', 'answer', 'graph'),
  *('easy', 'scope', 'aliases', 'reject', 'places'),
)


def names(logs: Sequence[EvalLog]) -> list[tuple[str, str]]:
  """(name of the model, how it was asked) of each log, so that they differ.

  The name is without its provider's, unless models of two providers have it;
  how it was asked has arguments in which the logs of one model differ, as in
  ', graph=strict'.
  """
  full = {log.eval.model for log in logs}
  short = collections.Counter(name.rpartition('/')[2] for name in full)
  given: dict[tuple[str, str], list[dict[str, Any]]] = {}
  for log in logs:
    own = given.setdefault((log.eval.task, log.eval.model), [])
    own.append({name: log.eval.task_args.get(name) for name in ASKED})
  made = []
  for log in logs:
    model, own = log.eval.model, given[log.eval.task, log.eval.model]
    how = ''.join(
      f', {name}={log.eval.task_args.get(name)}'
      for name in ASKED
      if len({str(one[name]) for one in own}) > 1
    )
    last = model.rpartition('/')[2]
    made.append((last if short[last] == 1 else model, how))
  return made


def _minigame(known: Mapping[str, Any]) -> questions.Asked:
  return questions.Asked(
    known['game'],
    MINIGAMES[bool(known['map'])],
    f'{known["game"]}/{known["step"]}',
    Question(known['here'], known['there']),
    easy=True,
    length=1,
    imputed=0,
  )


def maps(logs: Sequence[EvalLog]) -> dict[str, mazes.Maze]:
  """Game -> its map, of the folders that logs name and that are still there."""
  found: dict[str, mazes.Maze] = {}
  for log in logs:
    folder = str(log.eval.task_args.get('folder', ''))
    if not folder or not pathlib.Path(folder).exists():
      continue
    games = {str((s.metadata or {}).get('game')) for s in log.samples or []}
    for game in sorted(games - set(found)):
      walkthroughs = str(log.eval.task_args.get('walkthroughs', ''))
      found[game] = readers.read(folder, game, walkthroughs)
  return found


def cuts(logs: Sequence[EvalLog]) -> dict[str, int]:
  """Game -> the last step that was shown of it in any of the logs."""
  found: dict[str, int] = {}
  for log in logs:
    for sample in log.samples or []:
      known = sample.metadata or {}
      if known.get('kind') in KINDS:
        game = known['game']
        found[game] = max(found.get(game, 0), known['step'])
  return found


def page(logs: Sequence[EvalLog]) -> Rescored:
  """All tables and figures that these logs allow.

  Raises:
    InputError: no sample has the scores of MANGO's scorers.
  """
  every = rows.frame(scored(logs))
  if not len(every):
    raise core.InputError(
      'no sample of these logs was scored by mango_scorer or minigame_scorer; '
      'score them with inspect score'
    )
  games = every[~every.kind.isin(KINDS)]
  more = [tables.minigames(games)] if len(games) else []
  asked = every[every.kind.isin(KINDS)]
  if not len(asked):
    return pages.bare(every, more)
  return pages.page(asked, maps(logs), cuts(logs), more)
