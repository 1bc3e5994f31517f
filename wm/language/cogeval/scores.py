"""Scored answers to CogEval's questions, as tables: an answer a row.

Whatever they are from, recorded files or logs of Inspect, rows have the columns
`graph`, `domain`, `condition`, `model`, `temperature`, `repeat`, `group` (of
conditions) and `question`, which names what was asked: repeats of one question
are a cluster.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from wm import core
from wm.language.cogeval import failures, parsing
from wm.worlds.cognitive_graph import graphs, questions
from wm.worlds.cognitive_graph.questions import Question

FINAL, HISTORY, MAY = (
  f'scores_{name}.csv.gz' for name in ('all', 'history', 'may2023')
)
FACTORS = ('graph', 'domain', 'condition', 'model')
# The paper's three domains; those that it left out are not in its tables.
DOMAINS = ('ordRooms', 'unordSpatial', 'socialTies')
# Directory names of the paper's models, in the order of its table 3.
MODELS = {
  'gpt-4-32k': 'GPT-4-32k',
  'gpt-35-turbo': 'GPT-3.5-turbo',
  'text-davinci-003': 'davinci-003',
  'anthropic-claude-v1': 'Claude-v1',
  'forefront-pythia-20b': 'Pythia-20B',
  'cohere-xlarge': 'Cohere-xlarge',
  'replicate-llama-13b': 'LLaMA-13B',
  'replicate-alpaca-7b': 'Alpaca-7B',
  'bard': 'Bard',
}
# Table 2 is of eight.
EIGHT = tuple(name for name in MODELS if name != 'forefront-pythia-20b')
# Graph -> the paper's letter.
LETTERS = {name: letter for letter, name in graphs.LETTERS.items()}
AUDITED = 'v2'  # Prompts of August 2023, which the solver's questions are.
VERDICT = ['solver', 'graded', 'outcome', 'edges', 'old', 'over']
COT = 'CoT'  # In the table of May 2023, for '...Shortest'.
GROUP = {
  condition: group
  for group, several in questions.GROUPS.items()
  for condition in several
} | {f'{where}teleShortcutCoT': 'Shortcut' for where in ('', 'non')}
COLUMNS = {
  FINAL: {
    'prompt_version': 'prompts',
    'start': 'start',
    'goal': 'goal',
    'recorded_score': 'recorded',
    'rescore': 'solver',
    'key_status': 'key_status',
    'outcome': 'outcome',
    'answer_nodes': 'nodes',
  },
  HISTORY: {'snapshot': 'snapshot', 'score': 'recorded'},
  MAY: {
    'snapshot': 'snapshot',
    'token_score': 'token',
    'exact_match': 'exact',
    'recorded_score': 'recorded',
  },
}


class Answers(NamedTuple):
  """All recorded scores.

  Attributes:
    final: of the last commit: `recorded` (by the authors' judge), `solver`,
      `outcome`, `nodes` ('1-7-?'), `key_status`, `prompts` ('v1', 'v2', 'cot').
    history: of three earlier commits, by `snapshot`: `recorded`.
    may: of the paper's time, by `snapshot`: `token`, `exact`, `recorded`.
  """

  final: pd.DataFrame
  history: pd.DataFrame
  may: pd.DataFrame


def read(folder: str | pathlib.Path) -> Answers:
  """Reads the three tables of a folder, as the data's README describes them.

  Raises:
    InputError: a file is missing, damaged, or lacks a column.
  """
  place = pathlib.Path(folder)
  return Answers(*(table(place / name) for name in (FINAL, HISTORY, MAY)))


def table(path: pathlib.Path) -> pd.DataFrame:
  """One of the three tables, columns renamed.

  Raises:
    InputError: the file is missing, damaged, or lacks a column.
  """
  own = COLUMNS[path.name]
  heads = ('temperature', 'repeat') if path.name == FINAL else ('temp', 'rep')
  used = [*FACTORS, *heads, *own]
  words = [name for name in used if name in _WORDS]
  renamed = dict(zip(heads, ('temperature', 'repeat'), strict=True)) | own
  with core.reading_file(path, 'a table of scores'):
    frame = pd.read_csv(
      path, usecols=used, dtype=dict.fromkeys(words, 'category')
    )
    return named(frame.rename(columns=renamed))


_WORDS = (
  *FACTORS,
  *('prompt_version', 'key_status', 'outcome', 'snapshot', 'answer_nodes'),
)


def named(frame: pd.DataFrame) -> pd.DataFrame:
  """The same with `group`, and with `question`, a number for each that was
  asked, by the columns that say what it was.
  """
  asked = ['graph', 'domain', 'condition', 'prompts', 'start', 'goal']
  keys = [name for name in asked if name in frame]
  number = frame.groupby(keys, observed=True, sort=False, dropna=False).ngroup()
  group = frame['condition'].astype(object).map(GROUP).fillna('')
  return frame.assign(question=number, group=group)


def of_paper(
  frame: pd.DataFrame,
  models: Sequence[str] = EIGHT,
  *,
  cot: bool = False,
) -> pd.DataFrame:
  """Rows of the paper's design: its models, domains, graphs and groups.

  cot: also the two conditions that the paper calls chain of thought, where the
    word 'shortest' is added.
  """
  left_out = ['', 'Clusters']
  some = (
    frame['model'].isin(models)
    & frame['domain'].isin(DOMAINS)
    & frame['graph'].isin(LETTERS)
    & ~frame['group'].isin(left_out)
  )
  if not cot:
    some &= ~frame['condition'].astype(str).str.endswith((COT, 'Shortest'))
  return frame[some]


def judged(frame: pd.DataFrame) -> pd.DataFrame:
  """Answers to audited prompts, judged by the solver from their nodes.

  Numbers of clusters are no nodes: what the data say of them stays, and so
  does what they say has no answer.

  Returns:
    Rows of audited prompts with `solver` (is it optimal?), `graded`, `outcome`,
      `edges` (steps that no arc makes), `old` (those of them that an arc made
      before the change) and `over` (arcs too many of a way to the goal).
  """
  asked = ['graph', 'condition', 'domain', 'start', 'goal', 'nodes']
  every = frame[frame['prompts'] == AUDITED]
  counts = every['group'] == 'Clusters'
  some = every[~counts]
  # Nodes of what has no answer are those of prose.
  some = some.assign(nodes=some['nodes'].where(some['outcome'] != 'no_answer'))
  some = some.drop(columns=['solver', 'outcome'])
  code = some.groupby(asked, observed=True, sort=False, dropna=False).ngroup()
  first = some.loc[~code.duplicated(), asked].astype(object)
  rows = [_verdict(*row) for row in first.itertuples(index=False)]
  found = pd.DataFrame(rows, columns=VERDICT)
  wide = found.take(code.to_numpy()).set_index(some.index)
  whole = pd.concat([pd.concat([some, wide], axis=1), every[counts]])
  return whole.assign(outcome=whole['outcome'].astype('category'))


def _verdict(
  graph: str, condition: str, domain: str, start: float, goal: float, nodes: str
) -> tuple:
  """One answer, judged; see `judged`."""
  ends = (None if pd.isna(end) else int(end) for end in (start, goal))
  problem = questions.problem(Question(graph, condition, domain, *ends))
  reply = parsing.Reply(parse_nodes(nodes), 'answer', '', hedged=True)
  found = failures.judge(problem, reply)
  right = float(found.outcome == 'correct')
  edges = found.hallucinated_edges, found.perseverations, found.too_long
  return (right, found.graded, found.outcome, *edges)


def parse_nodes(text: object) -> tuple[int, ...]:
  """Nodes of '1-7-?'; none of what is no text."""
  if not isinstance(text, str) or not text:
    return ()
  return tuple(
    parsing.UNKNOWN if node == '?' else int(node) for node in text.split('-')
  )
