"""Recorded answers of language models about MANGO, as a page.

    rwkv14b-answers-2023-06.jsonl.gz   RWKV-4-14B, both settings, July 2023 maps

The files hold texts; questions come from the maps beside them.
"""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pandas as pd

from wm.language.pages import AnswersPage
from wm.language.papers import published
from wm.language.papers.mango import questions
from wm.language.papers.mango import report as reports
from wm.language.papers.mango import score as scoring
from wm.language.papers.mango.questions import KINDS
from wm.language.papers.mango.score import MazeQuestion
from wm.worlds.text_game import maze as mazes
from wm.worlds.text_game import readers

RWKV = 'rwkv14b-answers-2023-06.jsonl.gz'
PAPER = 'paper-2023-07.tar.gz'

Mazes = Mapping[str, mazes.Maze]


class RecordedAnswer(NamedTuple):
  """A recorded answer.

  Attributes:
    model: its name.
    asked: the question.
    text: what the model wrote.
  """

  model: str
  asked: MazeQuestion
  text: str


class QuestionIndex:
  """Questions of maps, by their words; each is given out once, then again."""

  def __init__(self, mazes: Mazes) -> None:
    alike: dict[tuple[Any, ...], list[MazeQuestion]] = {}
    for maze, kind in itertools.product(mazes.values(), KINDS):
      for asked in questions.questions(maze, kind):
        alike.setdefault((maze.game, *asked[:3]), []).append(asked)
    self._next = {key: itertools.cycle(x[::-1]) for key, x in alike.items()}

  def next(self, *words: Any) -> MazeQuestion | None:
    """The next question of a game, a start, a target and actions.

    Two paths may have the same words: their records come one by one.
    """
    return next(self._next.get(words, iter(())), None)


def rwkv(
  folder: pathlib.Path, games: Collection[str] = ()
) -> tuple[Mazes, list[RecordedAnswer], int]:
  """12,314 records: four answers each, those of a route with its first path.

  games: only these; default all.

  Returns:
    Game -> the map that it was asked about, answers in the order of the file,
    and how many records have a question that is none of these maps.
  """
  mazes_of = {
    game: readers.read(folder / PAPER, game)
    for game in games or readers.games(folder / PAPER)
  }
  index = QuestionIndex(mazes_of)
  routes: set[tuple[str, str]] = set()
  answers, unmatched = [], 0
  names = 'game', 'src', 'dst'
  lines = published.read_lines(folder / RWKV, dict.fromkeys(names, str))
  for record in lines:
    game, start, target = (record[name] for name in names)
    if game not in mazes_of:
      continue
    actions = tuple(map(str, record.get('actions') or ()))
    path = index.next(game, start, target, actions)
    pair = index.next(game, start, target, ())
    if path is None or pair is None:
      unmatched += 1
      continue
    asked = {'df': path}
    if (game, pair.key) not in routes:
      asked['rf'] = pair
    for column, question in asked.items():
      for model, mark in (('RWKV', ''), ('RWKV-S', '_s')):
        text = str(record.get(column + mark) or '')
        answers.append(RecordedAnswer(model, question, text))
    routes.add((game, pair.key))
  return mazes_of, answers, unmatched


def score_records(
  mazes_of: Mazes, answers: Iterable[RecordedAnswer], published: bool = False
) -> pd.DataFrame:
  """pd.DataFrame of recorded answers, in their order.

  published: see scoring.parse.
  """
  graphs = {
    game: questions.judge_graph(maze) for game, maze in mazes_of.items()
  }

  def rows() -> Iterator[dict[str, Any]]:
    for model, asked, text in answers:
      answer = scoring.parse(text, published=published)
      score = scoring.judge(graphs[asked.game], asked, answer)
      yield scoring.answer_row(model, asked, score)

  return scoring.answer_frame(rows())


def rescore(
  folder: str | pathlib.Path, games: Collection[str] = ()
) -> AnswersPage:
  """RWKV's recorded answers as a page, also as the authors' program read them.

  games: only these; default all.

  Raises:
    InputError: a file is missing or damaged.
  """
  mazes_of, answers, unmatched = rwkv(pathlib.Path(folder), games)
  published = score_records(mazes_of, answers, published=True)
  title = 'Success, as the published program reads answers'
  more = [
    reports.REPORT.table('success', published, title=title),
    reports.ill_formed_table(published, ', as published'),
  ]
  scored = score_records(mazes_of, answers)
  content = reports.answers_page(scored, more)
  remark = f'{unmatched:,} more records are left out: the maps have no such '
  return content._replace(lead=f'{content.lead} {remark}question.')
