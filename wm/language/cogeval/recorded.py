"""CogEval's recorded conversations, scored again by solver and parser."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from wm.language import rescored
from wm.language.cogeval import (
  claims,
  conversations,
  deviance,
  page,
  scores,
  scoring,
  tables,
  tokens,
)
from wm.language.cogeval.conversations import Conversation
from wm.language.cogeval.failures import Verdict
from wm.language.rescored import Rescored
from wm.reporting.tables import Table
from wm.worlds.cognitive_graph import questions

PAPER = '2023-05-20'  # The snapshot that is nearest to the paper's tables.
# Condition and model directory of the supplement's plain question from 1 to 12.
AWAY = 'ShortestPathOneClusterAway', 'original/exp3'


def rescore(folder: str | pathlib.Path) -> Rescored:
  """Scores recorded answers again; the tables and figures of the paper.

  Args:
    folder: of the recorded answers, as its README describes them.

  Raises:
    InputError: a file is missing or damaged.
  """
  place = pathlib.Path(folder)
  answers = scores.read(place)
  final = scores.judged(answers.final)
  final = final[final['domain'].isin(scores.DOMAINS)]
  sample = conversations.rows(place / conversations.SAMPLE)
  read = conversations.load(place)
  texts = [asked for asked in read if asked.answer]
  verdicts = [conversations.rescored(asked) for asked in texts]
  main = scores.of_paper(final, list(scores.MODELS))
  fits = _fits(answers, final)
  # The paper's means are of all domains, strays included.
  early = answers.may[answers.may['snapshot'] == PAPER]
  old = tables.means(early, 'token')
  return page.assembled(
    page.TITLE,
    f'{page.lead(final, "solver")}, scored again by an exact solver; '
    f'{len(texts):,} of them with text, read again. Recorded by the authors in '
    '2023.',
    main,
    'solver',
    [
      tables.stepwise(fits),
      tables.beside(old, f'Snapshot of {PAPER}, recovered score of words'),
      tables.repeats(main, ['recorded', 'solver']),
      claims.judges_table(final),
      read_again(texts, verdicts),
      keys(read),
    ],
    {
      'deviances': page.deviances(fits),
      'table3': _table3(old),
      'texts': text_rows(texts, verdicts),
    },
    [
      *page.decided(main, 'solver'),
      *page.decided(main, 'recorded')[:2],
      *claims.one_cluster_away(one_cluster_away(sample)),
    ],
  )


def _fits(
  answers: scores.Answers, final: pd.DataFrame
) -> dict[str, deviance.Stepwise]:
  """Table 2 of several scores."""
  late = answers.history[answers.history['snapshot'] == '2023-07-12']
  early = answers.may[answers.may['snapshot'] == PAPER]
  return {
    'solver': deviance.stepwise(scores.of_paper(final), 'solver'),
    'recorded': deviance.stepwise(scores.of_paper(answers.final), 'recorded'),
    'recorded, July 2023': deviance.stepwise(scores.of_paper(late), 'recorded'),
    'words, May 2023': deviance.stepwise(
      scores.of_paper(early, cot=True), 'token'
    ),
  }


def one_cluster_away(
  rows: Iterable[Mapping[str, Any]],
) -> list[tuple[float, bool]]:
  """(temperature, right by the authors' key) of the supplement's texts.

  rows: of `conversations.rows`.
  """
  return [
    (float(row['temperature']), row['parsed'] in row['expected'])
    for row in rows
    if (row['condition'], row['model']) == AWAY
  ]


def read_again(
  texts: Sequence[Conversation], verdicts: Sequence[Verdict]
) -> Table:
  """The reader of texts here beside the one that the data come with."""
  frame = pd.DataFrame(
    {
      'model': [asked.model for asked in texts],
      'n': 1,
      'same': [
        asked.rescore == (verdict.outcome == 'correct')
        for asked, verdict in zip(texts, verdicts, strict=True)
      ],
      'same class': [
        asked.outcome == verdict.outcome
        for asked, verdict in zip(texts, verdicts, strict=True)
      ],
    }
  )
  found = frame.groupby('model').agg(
    {'n': 'sum', 'same': 'mean', 'same class': 'mean'}
  )
  rows = [
    {'model': tables.label(model), **found.loc[model].to_dict()}
    for model in tables.models_of(frame)
  ]
  for row in rows:
    row['n'] = int(row['n'])
  return rescored.table(
    'Texts read again',
    rows,
    'Share of texts that two readers find right or wrong alike, and in one '
    'class of failure.',
    folded=True,
  )


def errors(folder: str | pathlib.Path) -> list[dict[str, Any]]:
  """Answer keys of the authors that the solver contradicts, a row each.

  Raises:
    InputError: a file is missing or damaged.
  """
  return wrong(conversations.load(folder))


def wrong(read: Sequence[Conversation]) -> list[dict[str, Any]]:
  """Answer keys of the authors that the solver contradicts, a row each."""
  made = []
  for (graph, domain, condition), (n, key) in conversations.wrong_keys(
    list(read)
  ).items():
    asked = next(
      one for one in read if one.question[:3] == (graph, condition, domain)
    )
    every = sum(one.question[:3] == asked.question[:3] for one in read)
    known = conversations.known_names(asked.question)
    right = scoring.keys(questions.problem(asked.question), known)
    made.append(
      {
        'graph': f'{scores.LETTERS[graph]} ({graph})',
        'domain': domain,
        'condition': condition,
        'key of the authors': ' | '.join(key),
        'right': ' | '.join(right),
        'conversations': every,
        'with text': n,
      }
    )
  return made


def keys(read: Sequence[Conversation]) -> Table:
  """The authors' key errors."""
  return rescored.table(
    "The authors' answer keys that are wrong", wrong(read), folded=True
  )


def text_rows(
  texts: Sequence[Conversation], verdicts: Sequence[Verdict]
) -> list[dict[str, Any]]:
  """A row for each conversation with text, all scores side by side."""
  made = []
  for asked, verdict in zip(texts, verdicts, strict=True):
    problem = questions.problem(asked.question)
    known = conversations.known_names(asked.question)
    right = verdict.outcome == 'correct'
    made.append(
      {
        **asked.question._asdict(),
        'model': asked.model,
        'temperature': asked.temperature,
        'repeat': asked.repeat,
        'recorded': asked.recorded,
        'solver': int(right),
        'strict': int(right and scoring.as_asked(problem, asked.answer, known)),
        'graded': round(verdict.graded, 4),
        'token': round(
          tokens.token_score(tokens.matched(asked.answer), asked.expected), 4
        ),
        'outcome': verdict.outcome,
        'nodes': '-'.join('?' if n < 0 else str(n) for n in verdict.nodes),
      }
    )
  return made


def _table3(
  found: dict[str, dict[str, tables.Cell]],
) -> list[dict[str, Any]]:
  return [
    {'condition': condition, 'model': model, **cell._asdict()}
    for condition, row in found.items()
    for model, cell in row.items()
  ]
