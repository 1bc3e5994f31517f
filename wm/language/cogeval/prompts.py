"""CogEval's conversations: what is asked, turn by turn.

A conversation is a description and a first question, for the largest reward,
then a change and the question again. `turns` says what stands between them:

  two     the model's own answer to the first question
  forced  a right answer in its place
  one     nothing: description, change and question are one message

Questions about paths between two nodes, and about clusters, follow the first
question in the three small graphs, and stand alone in the others.
"""

from __future__ import annotations

from typing import NamedTuple

from wm import core
from wm.language.cogeval.wording import Speaker
from wm.worlds.cognitive_graph import changes, graphs, names, questions
from wm.worlds.cognitive_graph.questions import LARGE, Problem, Question

TURNS = ('two', 'forced', 'one')
CHECKS = ('', 'edges', 'map', 'contamination')

SYSTEM = (
  'You are an assistant that answers questions about places and people. Think '
  'step by step. Then give your final answer on a line of its own, of the form '
  "'{form}'."
)
FORMS = {
  'path': 'Answer: ' + ', '.join(['NAME'] * 3) + ', ...',
  'choice': 'Answer: NAME',
  'count': 'Answer: there are NUMBER clusters',
  'edges': 'Answer: (NAME, NAME), (NAME, NAME), ...',
}
HINTS = {
  '': '',
  'bfs': (
    'Think carefully before you respond. You can use breadth-first search: '
    'begin at the start, look at all that are one step away, then at all that '
    'are two steps away, and so on, none of them twice, until you come to the '
    'goal. The path by which you come to it first is a shortest one.'
  ),
  'dfs': (
    'Think carefully before you respond. You can use depth-first search: '
    'begin at the start, go on as far as you can without coming to any of them '
    'twice, then go back to the last one with another way on. It visits all '
    'that can be reached, but the first path that it finds may not be a '
    'shortest one.'
  ),
}


class Settings(NamedTuple):
  """How a question is put.

  Attributes:
    wording: see `wording`.
    turns: see above.
    hint: a key of HINTS, behind the last question.
    seed: of names and order; 0 is CogEval's.
    check: '' for the question; 'edges' asks for the connections as pairs, 'map'
      for a drawing of them, each after the description, and 'contamination'
      for pairs before any connection is told.
  """

  wording: str = 'audited'
  turns: str = 'two'
  hint: str = ''
  seed: int = 0
  check: str = ''


class Dialog(NamedTuple):
  """A conversation that waits for the model.

  Attributes:
    system: what stands before all.
    first: user's first message, with a first question if there is a `second`.
    forced: what the model is made to have answered; '' lets it answer.
    second: user's second message, '' for none.
    problem: what the last message asks.
    known: node -> name.
  """

  system: str
  first: str
  forced: str
  second: str
  problem: Problem
  known: dict[int, str]


PLAIN = Settings()


def dialog(question: Question, settings: Settings = PLAIN) -> Dialog:
  """The conversation in which a question is asked; raises InputError."""
  for name, value, available in (
    ('turns', settings.turns, TURNS),
    ('hint', settings.hint, HINTS),
    ('check', settings.check, CHECKS),
  ):
    if value not in available:
      raise core.InputError(
        f'unknown {name}={value!r}; available: '
        + ', '.join(map(repr, available))
      )
  problem = questions.problem(question)
  speaker = spoken(question, settings)
  if settings.check:
    return _checked(speaker, problem, settings.check)
  change = changed(question)
  asked = ask(speaker, problem, question)
  if settings.hint:
    asked = f'{asked} {HINTS[settings.hint]}'
  told = speaker.changed(change)
  told = f'{told} {asked}' if told else asked
  described = speaker.described()
  valued = question.condition not in (
    'nClusters',
    *questions.STEPS,
    'nstepPath',
  )
  if valued or question.graph not in LARGE:
    described = f'{described} {speaker.rewards()}'
  system = SYSTEM.format(form=FORMS[problem.kind])
  called = dict(speaker.known)
  alone = question.graph in LARGE and not valued
  if alone or settings.turns == 'one' or question.condition == 'valuePath':
    return Dialog(system, f'{described} {told}', '', '', problem, called)
  value_of = Question(question.graph, 'valuePath', question.domain)
  before = questions.problem(value_of)
  first = f'{described} {ask(speaker, before, value_of)}'
  forced = written(before, called) if settings.turns == 'forced' else ''
  return Dialog(system, first, forced, told, problem, called)


def spoken(question: Question, settings: Settings) -> Speaker:
  """Who says things of the question's graph."""
  graph = graphs.graph(question.graph)
  domain = names.domain(question.domain)
  most = names.most_nodes(question.graph)
  known = names.node_names(question.graph, domain, most, settings.seed)
  return Speaker(graph, known, domain, settings.wording, settings.seed)


def changed(question: Question) -> graphs.Change:
  """What the question's condition changes."""
  condition = question.condition.removesuffix('Shortest')
  name = changes.of_condition(question.graph, condition, question.domain)
  return changes.change(question.graph, name)


def ask(speaker: Speaker, problem: Problem, question: Question) -> str:
  """The question itself."""
  start = speaker.node(problem.start)
  words = speaker.words
  if problem.kind == 'count':
    return (
      f'How many clusters of {words.kinds} are there? A cluster is a group of '
      f'at least two {words.kinds} that are densely connected to each other.'
    )
  if problem.kind == 'choice':
    return _choice(speaker, problem, question)
  start_name = speaker.known[problem.start]
  list_them = (
    f'Starting from {start}, list the {words.items} in order, including '
    f'{start_name}, separated by commas.'
  )
  if question.goal is not None:
    goal = speaker.node(question.goal)
    return f'What is the shortest path from {start} to {goal}? {list_them}'
  once = 'You can collect one reward only.'
  if speaker.wording == 'published':
    return f'From {start}, what is the path that yields the most? {list_them}'
  return (
    f'{once} From {start}, what is the shortest path to the largest reward? '
    f'{list_them}'
  )


def _choice(speaker: Speaker, problem: Problem, question: Question) -> str:
  """Asks for the first step alone."""
  kind, start = speaker.words.kind, speaker.node(problem.start)
  path = 'path'
  if question.condition.endswith('Shortest'):
    path = 'shortest path'
  if problem.graph.chances:
    return (
      'You can collect one reward only. Which '
      f'{kind} do you choose first from {start}, for the highest probability '
      'of coming to the largest reward?'
    )
  return (
    f'You can collect one reward only. Which {kind} do you choose first from '
    f'{start}, on the {path} to the largest reward?'
  )


def _checked(speaker: Speaker, problem: Problem, check: str) -> Dialog:
  """Asks for the connections instead."""
  words, known = speaker.words, dict(speaker.known)
  told = speaker.described()
  asked = (
    f'List all pairs of connected {words.kinds} as tuples of two names, each '
    'pair once.'
  )
  if check == 'map':
    asked = (
      f'Draw the map: a line for each {words.kind}, with its name, a colon, '
      f'and the names of all {words.kinds} that it is connected to.'
    )
  if check == 'contamination':
    everyone = ', '.join(known[node] for node in speaker.graph.nodes)
    told = f'{speaker.opening()} They are {everyone}.'
    asked = (
      'You may have seen this before. Their connections are not told here. '
      + asked
    )
  form = FORMS['edges'] if check != 'map' else 'Answer: followed by the map'
  system = SYSTEM.format(form=form)
  return Dialog(system, f'{told} {asked}', '', '', problem, known)


def written(problem: Problem, known: dict[int, str]) -> str:
  """A right answer, as it is asked for."""
  best = problem.optimal[0]
  if problem.kind == 'count':
    return f'Answer: there are {best[0]} clusters'
  return f'Answer: {", ".join(known[node] for node in best)}'
