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
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
  ChatMessage,
  ChatMessageSystem,
  ChatMessageUser,
)
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
from wm.language.papers.cogeval.prompts import DialogSettings
from wm.worlds.cognitive_graph import graphs, questions
from wm.worlds.cognitive_graph.graphs import best_paths
from wm.worlds.cognitive_graph.questions import AnsweredQuestion, Question

VERSION = 2  # 1 had other words.


@fields.documented
@dataclasses.dataclass(frozen=True)
class CogEvalOptions(DialogSettings):
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
  seed: int = field(0, 'of names and order, and of the nodes asked about')
  prompts: str = field('', published.HELP)

  def __post_init__(self) -> None:
    super().__post_init__()
    mixed = self.dialogs() != prompts.OF_AUTHORS
    if self.wording != prompts.OURS or (self.prompts and mixed):
      raise core.InputError(
        f'wording={self.wording!r}, prompts={self.prompts!r}: published '
        'prompts are those of prompts=FOLDER; expected no other option of '
        'conversations'
      )

  def dialogs(self) -> DialogSettings:
    """The options of conversations."""
    put = {name: vars(self)[name] for name in prompts.SETTINGS}
    if self.prompts:
      put['wording'] = prompts.PUBLISHED
    return DialogSettings(**put)


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


def _conditions(
  names: Sequence[str], chosen_conditions: Sequence[str]
) -> dict[str, list]:
  """Graph -> its conditions that are wanted, all where none is named.

  Raises:
    InputError: no such graph, or a condition that none of them has.
  """
  by_graph = {
    graphs.LETTERS.get(name, name): questions.conditions(name)
    for name in names or graphs.GRAPHS
  }
  every = list(dict.fromkeys(itertools.chain.from_iterable(by_graph.values())))
  for condition in chosen_conditions:
    text = f'no condition {condition!r} of {", ".join(by_graph)}'
    inputs.check_known(condition, every, text)
  shown = chosen_conditions or every
  return {
    name: [condition for condition in conditions if condition in shown]
    for name, conditions in by_graph.items()
  }


def samples(options: CogEvalOptions) -> Iterator[Sample]:
  """A sample for each graph, domain, condition, repeat and temperature.

  Raises:
    InputError: no such graph or domain, or a condition that no graph has.
  """
  temperatures = numbers(options.temperatures, 'temperatures', float) or [0.0]
  texts_of = _texts(options.prompts) if options.prompts else {}
  by_graph = _conditions(listed(options.graphs), listed(options.conditions))
  for graph, conditions in by_graph.items():
    for domain, condition, repeat in itertools.product(
      listed(options.domains), conditions, range(options.repeats)
    ):
      question = chosen(graph, condition, domain, options.seed + repeat)
      alike = [each for each in texts_of if each[:3] == question[:3]]
      question = alike[repeat % len(alike)] if alike else question
      if options.prompts and not alike:
        raise core.InputError(
          f'prompts={options.prompts} has no conversation of '
          f'{", ".join(question[:3])}'
        )
      dialogs = options.dialogs()
      for temperature in temperatures:
        texts = texts_of.get(question, ())
        yield sample(question, dialogs, temperature, repeat, texts)


@functools.lru_cache(maxsize=1)
def _texts(folder: str) -> dict[Question, list[str]]:
  """Question -> system's and user's messages of the authors' conversations."""
  recorded = papers.load('cogeval', 'recorded')
  published.check(folder, recorded.TEXTS, recorded.TEXTS)
  rows = recorded.load(folder, messages=True).dropna(subset=['messages'])
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
  settings: DialogSettings,
  temperature: float = 0.0,
  repeat: int = 0,
  texts: Sequence[str] = (),
) -> Sample:
  """One conversation; its metadata says what was asked.

  texts: the authors' messages; () is our own words.
  """
  dialog = prompts.dialog(question, settings)
  options = vars(settings)
  what = '/'.join(
    str(part)
    for part in (*question, *options.values())
    if part not in (None, '')
  )
  metadata = {
    'task': 'cogeval',
    **question._asdict(),
    **options,
    'group': questions.GROUP[question.condition],
    'question': what,
    'temperature': temperature,
    'repeat': repeat,
    'second': dialog.second,
  }
  if texts:
    system, first, *second = texts
    dialog = dialog._replace(system=system, first=first)
    metadata['second'] = ''.join(second)
  messages: list[ChatMessage] = [
    ChatMessageSystem(content=dialog.system),
    ChatMessageUser(content=dialog.first),
  ]
  return Sample(
    id=f'{what}/T{temperature:g}/{repeat}',
    input=messages,
    target=scoring.keys(dialog.problem, dialog.node_names),
    metadata=metadata,
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
  put = {name: metadata[name] for name in prompts.SETTINGS}
  return prompts.dialog(question, DialogSettings(**put))


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
  """The answer of a planner to the current turn; see PLANNERS."""
  metadata = dict(request.metadata)
  if metadata['second'] and not request.turn:  # Before anything has changed.
    metadata |= {'condition': 'valuePath', 'start': None, 'goal': None}
  dialog = asked_of(metadata)
  problem, names = dialog.problem, dialog.node_names
  if problem.kind == 'count':
    right = request.answerer in ('oracle', 'stale_map')
    count = problem.optimal[0][0] if right else 1
    return f'Answer: there are {count} clusters'
  if metadata['goal'] is not None:  # It is the only reward then.
    graph = dataclasses.replace(problem.graph, rewards=((metadata['goal'], 1),))
    problem = problem._replace(graph=graph, before=graph)
  path = PLANNERS[request.answerer](problem, request.draws)
  if problem.kind == 'choice' and path[1:]:
    path = path[1:2]
  return f'Answer: {", ".join(names[node] for node in path)}'


LONGEST = 60  # Steps of a random walk.

Planner = Callable[[AnsweredQuestion, random.Random], Sequence[int]]


def best(problem: AnsweredQuestion, draws: random.Random) -> Sequence[int]:
  """A right answer; a choice follows the start."""
  del draws
  first = problem.optimal[0]
  return first if problem.kind == 'path' else (problem.start, *first)


def old(problem: AnsweredQuestion, draws: random.Random) -> Sequence[int]:
  """A right answer before the change; the start alone where there is none."""
  if problem.graph == problem.before:
    return best(problem, draws)
  paths = best_paths(problem.before)
  return paths[0] if paths else (problem.start,)


def walk(problem: AnsweredQuestion, draws: random.Random) -> Sequence[int]:
  """Uniform steps until a goal, a dead end, or LONGEST."""
  path = [problem.start]
  while path[-1] not in problem.goals and len(path) < LONGEST:
    heads = problem.graph.after[path[-1]]
    if not heads:
      break
    path.append(draws.choice(heads))
  return path


def leap(problem: AnsweredQuestion, draws: random.Random) -> Sequence[int]:
  """From the start to a goal in one step."""
  del draws
  return [problem.start, *problem.goals[:1]]


PLANNERS: dict[str, Planner] = {
  'oracle': best,
  'stale_map': old,
  'random': walk,
  'always_yes': leap,
}
