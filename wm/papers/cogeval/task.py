"""Inspect's task `wm/cogeval`, and planners that answer it without a model.

oracle        a shortest path to the goal, or to the largest reward
stale_map     the same, on the graph and the rewards before the change
random        steps at random, until the goal or a dead end
random_path   the same without coming to a node twice
greedy        at every step the largest reward in sight, else any new node,
              until there is a reward
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
  ChatMessageAssistant,
  ChatMessageSystem,
  ChatMessageUser,
)
from inspect_ai.scorer import Score, Scorer, Target, grouped, mean, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver

from wm import core
from wm.core import basics, fields, inputs
from wm.core.fields import field
from wm.language import providers
from wm.language.inspect_tasks import listed, numbers, stderr, with_options
from wm.models.serving import replies
from wm.papers.cogeval import prompts
from wm.papers.cogeval import score as scoring
from wm.worlds.cognitive_graph import graphs, questions
from wm.worlds.cognitive_graph.graphs import Graph, best_paths
from wm.worlds.cognitive_graph.questions import AnsweredQuestion, Question

VERSION = 1


@fields.documented
@dataclasses.dataclass(frozen=True)
class CogEvalOptions(prompts.DialogSettings):
  """Questions and conversations; lists are divided by commas."""

  graphs: str = field('', "names or letters, '' for all six")
  domains: str = field(
    'ordRooms,unordSpatial,socialTies',
    "of names; also 'objects' and 'letters'",
  )
  conditions: str = field('', "'' for all of a graph")
  temperatures: str = field('0', 'of sampling')
  repeats: int = field(
    1,
    'of each question at each temperature; those about two nodes ask of other '
    'nodes in each',
    least=1,
  )
  relabel: bool = field(False, 'each repeat has names and order of its own')
  seed: int = field(0, 'of these, and of the nodes asked about')

  def dialogs(self, seed: int) -> prompts.DialogSettings:
    """The options of conversations; seed: of names and order."""
    put = {name: vars(self)[name] for name in prompts.SETTINGS}
    return prompts.DialogSettings(**put | {'seed': seed})


@task
@with_options
def cogeval(options: CogEvalOptions) -> Task:
  """Planning on six graphs in words, after rewards and ways have changed.

  Scores are clustered by question: repeats of one are not independent, unless
  `relabel` gives each its own names and order.
  """
  asked = list(samples(options))
  if not asked:
    raise core.InputError(f'domains={options.domains!r}; expected one or more')
  return Task(
    dataset=MemoryDataset(asked, name='cogeval'),
    solver=converse(),
    scorer=listed_edges() if options.check else planned(),
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
  by_graph = _conditions(listed(options.graphs), listed(options.conditions))
  for graph, conditions in by_graph.items():
    # A check comes before any condition is told.
    for domain, condition, repeat in itertools.product(
      listed(options.domains),
      ['valuePath'] if options.check else conditions,
      range(options.repeats),
    ):
      question = chosen(graph, condition, domain, options.seed + repeat)
      dialogs = options.dialogs(
        options.seed + (repeat + 1 if options.relabel else 0)
      )
      for temperature in temperatures:
        yield sample(question, dialogs, temperature, repeat)


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
  settings: prompts.DialogSettings,
  temperature: float = 0.0,
  repeat: int = 0,
) -> Sample:
  """One conversation; its metadata says what was asked."""
  name, target, metadata = described(question, settings, temperature, repeat)
  dialog = prompts.dialog(question, settings)
  messages: list[ChatMessage] = [
    ChatMessageSystem(content=dialog.system),
    ChatMessageUser(content=dialog.first),
  ]
  if dialog.forced:
    messages += [
      ChatMessageAssistant(content=dialog.forced),
      ChatMessageUser(content=dialog.second),
    ]
  return Sample(id=name, input=messages, target=target, metadata=metadata)


def described(
  question: Question,
  settings: prompts.DialogSettings,
  temperature: float,
  repeat: int,
) -> tuple[str, list[str], dict[str, Any]]:
  """Name, right answers and metadata of a conversation's sample."""
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
    'second': '' if dialog.forced else dialog.second,
  }
  target = scoring.keys(dialog.problem, dialog.node_names)
  return f'{what}/T{temperature:g}/{repeat}', target, metadata


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
  """The conversation that a sample's metadata tells of."""
  question = Question(*(metadata[name] for name in Question._fields))
  put = {name: metadata[name] for name in prompts.SETTINGS}
  return prompts.dialog(question, prompts.DialogSettings(**put))


_CLUSTERED = (mean(), stderr(cluster='question'))


@scorer(
  metrics={
    'correct': [*_CLUSTERED, grouped(mean(), 'condition', all=False)],
    '*': [*_CLUSTERED],
  }
)
def planned() -> Scorer:
  """Four scores of an answer side by side, and how it fails.

  `correct` is optimal however it is written, and takes an unread reply for
  wrong, which `correct_read` leaves out; between them is what would be correct
  if all were read. `strict` is written as asked for,
  `graded` gives parts for valid ways, `token` is the paper's own score of
  words; see `scoring`. Standard errors are clustered by question.
  """

  async def score(state: TaskState, target: Target) -> Score:
    """Scores one reply."""
    del target
    dialog = asked_of(state.metadata)
    text = state.output.completion
    values, verdict = scoring.scored(dialog.problem, text, dialog.node_names)
    unread = verdict.outcome == 'no_answer'
    failure = replies.cause(
      'nothing' if unread else '', state.output.stop_reason
    )
    return Score(
      value={
        'correct': values['correct'],
        'correct_read': math.nan if unread else values['correct'],
        **values,
        'hallucinated_edge': float(verdict.hallucinated_edges > 0),
        'no_answer': float(unread),
      },
      answer='-'.join(map(str, verdict.nodes)),
      explanation=verdict.outcome,
      metadata={**verdict._asdict(), 'failure': failure},
    )

  return score


@scorer(metrics={'*': [*_CLUSTERED]})
def listed_edges() -> Scorer:
  """Precision and recall of the connections that a reply lists."""

  async def score(state: TaskState, target: Target) -> Score:
    """Scores one reply."""
    del target
    dialog = asked_of(state.metadata)
    graph = dialog.problem.before
    precision, recall, num = scoring.edge_scores(
      graph, state.output.completion, dialog.node_names
    )
    return Score(
      value={'precision': precision, 'recall': recall}, answer=str(num)
    )

  return score


def known_answer(request: providers.Request) -> str | None:
  """The answer of a planner to the current turn; see PLANNERS."""
  metadata = dict(request.metadata)
  if metadata['second'] and not request.turn:  # Before anything has changed.
    metadata |= {'condition': 'valuePath', 'start': None, 'goal': None}
  dialog = asked_of(metadata)
  problem, names = dialog.problem, dialog.node_names
  if metadata['check']:
    return all_edges(problem.before, names, metadata['check'])
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


def walk(
  problem: AnsweredQuestion,
  draws: random.Random,
  *,
  anew: bool = False,
  greedy: bool = False,
) -> Sequence[int]:
  """Uniform steps until a goal, a dead end, or LONGEST.

  anew: to new nodes; greedy: to the largest reward in sight, until there is one
    at the last node.
  """
  path = [problem.start]
  rewards = dict(problem.graph.rewards) if greedy else {}
  ends = rewards if greedy else problem.goals
  while path[-1] not in ends and len(path) < LONGEST:
    heads = problem.graph.after[path[-1]]
    if anew:
      heads = tuple(head for head in heads if head not in path)
    if not heads:
      break
    seen = [head for head in heads if head in rewards]
    best_seen = max(seen, key=lambda head: rewards[head], default=None)
    path.append(draws.choice(heads) if best_seen is None else best_seen)
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
  'random_path': functools.partial(walk, anew=True),
  'greedy': functools.partial(walk, anew=True, greedy=True),
}


def all_edges(graph: Graph, names: dict[int, str], check: str) -> str | None:
  """All connections, as pairs or as lines; None if the prompt has none."""
  if check == 'contamination':
    return None
  if check == 'edges':
    pairs = {frozenset(arc): arc for arc in reversed(graph.arcs)}
    listed = (f'({names[a]}, {names[b]})' for a, b in pairs.values())
    return f'Answer: {", ".join(listed)}'
  lines = (
    f'{names[node]}: {", ".join(names[head] for head in graph.after[node])}'
    for node in graph.nodes
    if graph.after[node]
  )
  return 'Answer:\n' + '\n'.join(lines)
