"""Reading and scoring answers to MANGO's questions: 100,000 of them."""

from __future__ import annotations

import ast
import contextlib
import json
from collections.abc import Iterator

from tests.bench import harness
from wm.papers.mango import facts, questions
from wm.papers.mango import score as scoring
from wm.worlds import mazes

ANSWERS = 100_000
# Those who answer; the last one's answers are cut off.
SPEAKERS = 'walked', 'reversed', 'random_walk', 'frequent', 'walked'


def _write(answer: scoring.MovesAnswer, number: int) -> str:
  """An answer as models write it: Python's or JSON's quotes, after a word."""
  keys = scoring.KEYS[0]
  moves = [dict(zip(keys, move, strict=True)) for move in answer.moves]
  return f' {json.dumps(moves, indent=1) if number % 2 else repr(moves)}'


def _asked() -> list[tuple[scoring.JudgeGraph, scoring.MazeQuestion, str]]:
  """100,000 answers to questions about mazes of 20 places."""
  found: list[tuple[scoring.JudgeGraph, scoring.MazeQuestion, str]] = []
  seed = 0
  while len(found) < ANSWERS:
    maze = mazes.World(seed=seed, places=20).maze
    graph, known = questions.judge_graph(maze), facts.seen_at(maze, maze.last)
    for asked in questions.questions(maze, questions.DESTINATION, maze.last):
      for number, name in enumerate(SPEAKERS):
        text = _write(facts.baseline_answer(name, asked, known, seed), number)
        cut = number + 1 == len(SPEAKERS)
        found.append((graph, asked, text[:-9] if cut else text))
    seed += 1
  return found[:ANSWERS]


def _literal(texts: list[str]) -> int:
  """How many texts are literals."""
  right = 0
  for text in texts:
    with contextlib.suppress(SyntaxError):
      right += bool(ast.literal_eval(text.strip()))
  return right


def bench_answers() -> Iterator[harness.Line]:
  """Parsing and all scores, beside the literals of the same texts alone."""
  given = _asked()
  texts = [text for _, _, text in given]

  def score() -> int:
    """How many answers are well-formed."""
    return sum(
      not scoring.judge(graph, asked, scoring.parse(text)).failure
      for graph, asked, text in given
    )

  if score() != _literal(texts):
    raise AssertionError('the parser reads other texts than literal_eval')
  fast = harness.measure(score)
  slow = harness.measure(lambda: _literal(texts), runs=1)
  yield harness.Line(
    name='100,000 answers to destination questions, read and scored',
    value=fast.wall,
    unit='s',
    baseline='ast.literal_eval alone, same run',
    ratio=slow.wall / fast.wall,
    target='4x',
  )
