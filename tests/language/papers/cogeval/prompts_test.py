"""Every prompt, read back from its text alone, is the graph it is made of."""

import itertools
import random

import pytest

from tests.language.stand_ins import asked as askeds
from tests.language.stand_ins import cogeval as reader
from tests.language.stand_ins import planners
from wm.language.papers.cogeval import prompts
from wm.language.papers.cogeval import score as scoring
from wm.worlds.cognitive_graph import graphs, questions


def asked_of(name, domain):
  """One question of each condition."""
  for condition in questions.conditions(name):
    steps = questions.distance(name, condition)
    ends = (None, None)
    if steps:
      ends = graphs.pairs_at(graphs.graph(name), steps)[-1]
    yield questions.Question(name, condition, domain, *ends)


def turns_of(dialog):
  """As Inspect hands them to a provider at the last turn."""
  return [text for text in (dialog.system, dialog.first, dialog.second) if text]


def told(value_found, known):
  """Arcs and rewards of what was read, as nodes."""
  back = {name.lower(): node for node, name in known.items()}
  arcs = frozenset((back[a], back[b]) for a, b in value_found.arcs)
  return arcs, {back[a]: n for a, n in value_found.rewards.items()}


def check(question, dialog, text):
  """The text says the question's graph and nothing else."""
  result, problem = reader.read(text), dialog.problem
  arcs, rewards = told(result, dialog.node_names)
  assert arcs == problem.graph.known
  if 'reward' in dialog.first + dialog.second:
    assert rewards == dict(problem.graph.rewards)
    first = told(result.before or result, dialog.node_names)
    assert first == (problem.before.known, dict(problem.before.rewards))
  path = 'path' if question.goal is not None else 'value'
  kinds = {'count': 'count', 'choice': 'choice'}
  assert result.kind == kinds.get(problem.kind, path)
  known = {node: name.lower() for node, name in dialog.node_names.items()}
  assert result.start == ('' if path == 'count' else result.start)
  assert result.goal == known.get(question.goal, '')
  if problem.kind != 'count':
    assert result.start == known[problem.start]
  assert len(result.chances) == len(problem.graph.chances)


@pytest.mark.parametrize('domain', questions.DOMAINS)
@pytest.mark.parametrize('name', graphs.GRAPHS)
def test_every_prompt_says_its_graph_and_is_answered_from_it(name, domain):
  """By turns, and names and order of a seed."""
  ways = itertools.cycle(itertools.product(prompts.TURNS, (0, 3)))
  for question in asked_of(name, domain):
    for turns, seed in itertools.islice(ways, 2):
      dialog = prompts.dialog(question, turns, seed)
      texts = turns_of(dialog)
      check(question, dialog, '\n\n'.join(texts))
      output = planners.answer(askeds.Asked(texts))
      assert judged(dialog, output).outcome == 'correct', output


def judged(dialog, output):
  reply = scoring.read_reply(dialog.problem, output, dialog.node_names)
  return scoring.judge(dialog.problem, reply)


def test_a_seed_gives_other_names_and_another_order():
  question = questions.Question('n15star', 'teleDetour', 'socialTies')
  first, other = (prompts.dialog(question, seed=seed).first for seed in (1, 2))
  assert first != other
  assert sorted(first) != sorted(other)


def test_turns_are_different_texts():
  question = questions.Question('n7tree', 'transReval', 'unordSpatial')
  texts = {
    (*turns_of(dialog),)
    for dialog in (prompts.dialog(question, turns) for turns in prompts.TURNS)
  }
  assert len(texts) == 2
  alone = questions.Question('n15star', '1stepPath', start=1, goal=7)
  assert prompts.dialog(alone).second == ''


def planned(knows, question, seed=0):
  dialog = prompts.dialog(question)
  asked = askeds.Asked(turns_of(dialog), knows, random.Random(seed))
  output = planners.answer(asked)
  return judged(dialog, output)


@pytest.mark.parametrize('name', graphs.GRAPHS)
def test_the_old_map_is_never_right_after_a_change(name):
  for question in asked_of(name, 'ordRooms'):
    problem = questions.problem(question)
    verdict = planned('old_map', question)
    same = problem.graph == problem.before or problem.graph.chances
    assert (verdict.outcome == 'correct') == bool(same)


def test_planners_fail_as_they_must():
  value = questions.Question('n15star', 'valuePath')
  leap = planned('yes', value)
  assert (leap.outcome, leap.nodes) == ('hallucinated_edge', (1, 8))
