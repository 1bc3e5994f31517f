"""Reading and scoring answers to MANGO's questions: 100,000 of them."""

from __future__ import annotations

import ast
import contextlib
import json
from collections.abc import Iterator, Sequence

from tests.bench import harness
from wm.language.papers.mango import questions
from wm.language.papers.mango import score as scoring
from wm.worlds import mazes

ANSWERS = 100_000
EACH = 5  # Answers to a question; the last one is cut off.


def _write(answer: Sequence[scoring.MazeMove], number: int) -> str:
  """An answer as models write it: Python's or JSON's quotes, after a word."""
  keys = scoring.KEYS[0]
  moves = [dict(zip(keys, move, strict=True)) for move in answer]
  return f' {json.dumps(moves, indent=1) if number % 2 else repr(moves)}'


def _asked() -> list[tuple[scoring.JudgeGraph, scoring.MazeQuestion, str]]:
  """100,000 answers to questions about mazes of 20 places."""
  results: list[tuple[scoring.JudgeGraph, scoring.MazeQuestion, str]] = []
  seed = 0
  while len(results) < ANSWERS:
    maze = mazes.World(seed=seed, places=20).maze
    graph = questions.judge_graph(maze)
    known = scoring.visible_moves(maze, maze.last)
    for asked in questions.questions(maze, questions.DESTINATION, maze.last):
      right = scoring.walk(known, *asked[:3])
      for number in range(EACH):
        # The right moves, all or some of them; every other answer invents one.
        moves = [*right[number:], scoring.MazeMove('a', f'go {seed}', 'b')]
        text = _write(moves[: len(moves) - number % 2], number)
        cut = number + 1 == EACH
        results.append((graph, asked, text[:-9] if cut else text))
    seed += 1
  return results[:ANSWERS]


def _literal(texts: list[str]) -> int:
  """How many texts are literals."""
  right = 0
  for text in texts:
    with contextlib.suppress(SyntaxError):
      right += bool(ast.literal_eval(text.strip()))
  return right


def bench_answers() -> Iterator[harness.Line]:
  """Parsing and all scores, beside the literals of the same texts alone."""
  inputs = _asked()
  texts = [text for _, _, text in inputs]

  def score() -> int:
    """How many answers are well-formed."""
    return sum(
      not scoring.judge(graph, asked, scoring.parse(text)).failure
      for graph, asked, text in inputs
    )

  if score() != _literal(texts):
    raise AssertionError('the parser reads other texts than literal_eval')
  fast = harness.measure(score)
  slow = harness.measure(lambda: _literal(texts), runs=1)
  yield harness.compared(
    '100,000 answers to destination questions, read and scored',
    fast.wall,
    's',
    *(fast, slow, 'ast.literal_eval alone', 'wall', '4x'),
  )
