"""Inspect's task `wm/cogeval`, and planners that answer it without a model.

oracle        a shortest path to the goal, or to the largest reward
stale_map     the same, on the graph and the rewards before the change
random        steps at random, until the goal or a dead end
always_yes    from the start to a goal in one step
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageSystem, ChatMessageUser
from inspect_ai.scorer import Score, Scorer, Target, grouped, mean, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver

from wm import core
from wm.core import basics, fields, inputs
from wm.core.fields import field
from wm.language import papers, providers
from wm.language.answers import replies
from wm.language.inspect_tasks import listed, numbers, stderr, with_options
from wm.language.papers import published
from wm.language.papers.cogeval import prompts
from wm.language.papers.cogeval import score as scoring
from wm.worlds.cognitive_graph import graphs, questions
from wm.worlds.cognitive_graph.graphs import best_paths
from wm.worlds.cognitive_graph.questions import AnsweredQuestion, Question

VERSION = 2  # 1 had other words.


@fields.documented
@dataclasses.dataclass(frozen=True)
class CogEvalOptions:
  """Questions and conversations; lists are divided by commas."""

  graphs: str = field('', "names or letters, '' for all six")
  domains: str = field('ordRooms,unordSpatial,socialTies', 'of names')
  conditions: str = field('', "'' for all of a graph")
  temperatures: str = field('0', 'of sampling')
  repeats: int = field(
    1,
    'of each question at each temperature; those about two nodes ask of other '
    'nodes in each',
    least=1,
  )
  turns: str = field(
    'two',
    "'two': the model answers before it is told of a change; 'one': all is one "
    'message',
    choices=prompts.TURNS,
  )
  seed: int = field(
    0, "of names and order, 0 is CogEval's, and of the nodes asked about"
  )
  prompts: str = field('', published.HELP)

  def __post_init__(self) -> None:
    fields.check(self)
    if self.prompts and (self.turns, self.seed) != ('two', 0):
      raise core.InputError(
        f'turns={self.turns!r}, seed={self.seed}: published prompts are those '
        'of prompts=FOLDER; expected no other option of conversations'
      )


@task
@with_options
def cogeval(options: CogEvalOptions) -> Task:
  """Planning on six graphs in words, after rewards and ways have changed.

  Scores are clustered by question: repeats of one are not independent.
  """
  asked = list(samples(options))
  if not asked:
    raise core.InputError(f'domains={options.domains!r}; expected one or more')
  return Task(
    dataset=MemoryDataset(asked, name='cogeval'),
    solver=converse(),
    scorer=planned(),
    version=VERSION,
  )


def samples(options: CogEvalOptions) -> Iterator[Sample]:
  """A sample for each graph, domain, condition, repeat and temperature.

  Raises:
    InputError: no such graph or domain, or a condition that no graph has.
  """
  temperatures = numbers(options.temperatures, 'temperatures', float) or [0.0]
  texts_of = _texts(options.prompts) if options.prompts else {}
  names = listed(options.graphs) or graphs.GRAPHS
  by_graph = {
    graphs.LETTERS.get(name, name): questions.conditions(name) for name in names
  }
  every = list(dict.fromkeys(itertools.chain(*by_graph.values())))
  conditions = listed(options.conditions) or every
  for condition in conditions:
    text = f'no condition {condition!r} of {", ".join(by_graph)}'
    inputs.check_known(condition, every, text)
  for graph, asked in by_graph.items():
    chosen_conditions = [
      condition for condition in asked if condition in conditions
    ]
    for domain, condition, repeat in itertools.product(
      listed(options.domains), chosen_conditions, range(options.repeats)
    ):
      question = chosen(graph, condition, domain, options.seed + repeat)
      alike = [each for each in texts_of if each[:3] == question[:3]]
      if options.prompts and not alike:
        raise core.InputError(
          f'prompts={options.prompts} has no conversation of '
          f'{", ".join(question[:3])}'
        )
      question = alike[repeat % len(alike)] if alike else question
      for temperature in temperatures:
        texts = texts_of.get(question, ())
        yield sample(question, options, temperature, repeat, texts)


@functools.lru_cache(maxsize=1)
def _texts(folder: str) -> dict[Question, list[str]]:
  """Question -> system's and user's messages of the authors' conversations."""
  recorded = papers.load('cogeval', 'recorded')
  published.check(folder, recorded.TEXTS, recorded.TEXTS)
  rows = recorded.load(folder).dropna(subset=['messages'])
  return {
    row.question: [text for role, text in row.messages if role != 'a']
    for row in rows.drop_duplicates('question').itertuples()
  }


def chosen(graph: str, condition: str, domain: str, number: int) -> Question:
  """The question of a condition, about the nodes that a number chooses."""
  domain = questions.full_domain(domain)
  steps = questions.distance(graph, condition)
  if steps is None:
    return Question(graph, condition, domain)
  pairs = graphs.pairs_at(graphs.graph(graph), steps)
  pick = int(basics.hash64(number, steps)) % len(pairs)
  return Question(graph, condition, domain, *pairs[pick])


def sample(
  question: Question,
  options: CogEvalOptions,
  temperature: float,
  repeat: int,
  texts: Sequence[str],
) -> Sample:
  """One conversation; its metadata says what was asked.

  texts: the authors' messages; () is our own words.
  """
  dialog = prompts.dialog(question, options.turns, options.seed)
  settings = {
    # Our words are called after those of August 2023, which are alike.
    'wording': 'published' if texts else 'audited',
    'turns': options.turns,
    'seed': options.seed,
  }
  parts = (*question, *settings.values())
  what = '/'.join(str(part) for part in parts if part is not None)
  if texts:
    system, first, *second = texts
    dialog = dialog._replace(system=system, first=first, second=''.join(second))
  return Sample(
    id=f'{what}/T{temperature:g}/{repeat}',
    input=[
      ChatMessageSystem(content=dialog.system),
      ChatMessageUser(content=dialog.first),
    ],
    target=scoring.keys(dialog.problem, dialog.node_names),
    metadata={
      'task': 'cogeval',
      **question._asdict(),
      **settings,
      'group': questions.GROUP[question.condition],
      'question': what,
      'temperature': temperature,
      'repeat': repeat,
      'second': dialog.second,
    },
  )


@solver
def converse() -> Solver:
  """Lets the model answer, tells it what has changed, and asks again."""

  async def solve(state: TaskState, generate: Generate) -> TaskState:
    """Runs one conversation."""
    temperature = state.metadata['temperature']
    state = await generate(state, temperature=temperature)
    if state.metadata['second']:
      state.messages.append(ChatMessageUser(content=state.metadata['second']))
      state = await generate(state, temperature=temperature)
    return state

  return solve


def asked_of(metadata: dict[str, Any]) -> prompts.Dialog:
  """The conversation that a sample's metadata tells of, in any wording."""
  question = Question(*(metadata[name] for name in Question._fields))
  return prompts.dialog(question, metadata['turns'], metadata['seed'])


_CLUSTERED = (mean(), stderr(cluster='question'))


@scorer(
  metrics={
    'correct': [*_CLUSTERED, grouped(mean(), 'condition', all=False)],
    '*': [*_CLUSTERED],
  }
)
def planned() -> Scorer:
  """Is an answer optimal, and how does it fail?

  `correct` is optimal however it is written, and takes an unread reply for
  wrong, which `correct_read` leaves out; between them is what would be correct
  if all were read. Standard errors are clustered by question.
  """

  async def score(state: TaskState, target: Target) -> Score:
    """Scores one reply."""
    del target
    dialog = asked_of(state.metadata)
    text = state.output.completion
    problem = dialog.problem
    reply = scoring.read_reply(problem, text, dialog.node_names)
    verdict = scoring.judge(problem, reply)
    correct = float(verdict.outcome == 'correct')
    unread = verdict.outcome == 'no_answer'
    failure = replies.cause(
      'nothing' if unread else '', state.output.stop_reason
    )
    return Score(
      value={
        'correct': correct,
        'correct_read': math.nan if unread else correct,
        'hallucinated_edge': float(verdict.hallucinated_edges > 0),
        'no_answer': float(unread),
      },
      answer='-'.join(map(str, verdict.nodes)),
      explanation=verdict.outcome,
      metadata={**verdict._asdict(), 'failure': failure},
    )

  return score


def known_answer(request: providers.Request) -> str:
  """The answer of a planner to the current turn; see `plan`."""
  metadata = dict(request.metadata)
  if metadata['second'] and not request.turn:  # Before anything has changed.
    metadata |= {'condition': 'valuePath', 'start': None, 'goal': None}
  dialog = asked_of(metadata)
  problem = dialog.problem
  if problem.kind == 'count':
    count = 1 if request.guesses else problem.optimal[0][0]
    return f'Answer: there are {count} clusters'
  path = plan(request, problem)
  if problem.kind == 'choice' and path[1:]:
    path = path[1:2]
  return f'Answer: {", ".join(dialog.node_names[node] for node in path)}'


LONGEST = 60  # Steps of a random walk.


def plan(
  request: providers.Request, problem: AnsweredQuestion
) -> Sequence[int]:
  """The path of a planner, the start included; see above."""
  path = [problem.start]
  if request.answerer == 'always_yes':
    return [*path, *problem.goals[:1]]
  if request.answerer == 'random':
    while path[-1] not in problem.goals and len(path) < LONGEST:
      if not (heads := problem.graph.after[path[-1]]):
        break
      path.append(request.draws.choice(heads))
    return path
  if request.answerer == 'stale_map' and problem.graph != problem.before:
    return next(iter(best_paths(problem.before)), path)
  first = problem.optimal[0]
  return first if problem.kind == 'path' else [*path, *first]
