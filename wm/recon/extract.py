"""Extracts the automaton that a model implies, and compares it to the world's.

wm.evaluation.implied -> summary -> files
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

import scipy

from wm import core
from wm.core import accept as rules
from wm.core import registry
from wm.core.predictor import Tokens
from wm.evaluation import implied, scoring, statistics
from wm.evaluation.automaton_learner import UNEXPLORED, MooreMachine
from wm.options.calls import Extraction
from wm.runtime import files, provenance

STAGE = 'extract'
FILE, MACHINE = 'extraction.json', 'automaton.json'
CONFIDENCE = 0.95
# Walks with an error bound (probably approximately correct).
WALKS = 'world_walks', 'model_walks'
SHOWN = 8  # Most items that are printed of a list.
FRESH = 1 << 20  # Number of the round of walks for the bound, unused before.


@dataclasses.dataclass(frozen=True)
class Extracted:
  """The automaton that a model implies.

  Attributes:
    automaton: the model's automaton.
    world: world of the tokens.
    truth: the world's minimal automaton; None if it is too large.
    comparison: comparison of both; None without truth.
    summary: content of OUT/extraction.json: counts, bounds and differences.
  """

  automaton: MooreMachine
  world: core.World
  truth: implied.Truth | None
  comparison: implied.Differences | None
  summary: dict[str, Any]

  def lines(self) -> list[str]:
    """The summary, with at most SHOWN items of a list."""
    text = []
    for name, value in self.summary.items():
      items = value if isinstance(value, list) else []
      text.append(f'{name}  {json.dumps(len(items) if items else value)}')
      text += [f'  {json.dumps(item)}' for item in items[:SHOWN]]
    return text

  def __str__(self) -> str:
    return '\n'.join(self.lines())

  def machine(self) -> dict[str, Any]:
    """The automaton as JSON for the world automaton(file=...).

    Edges to unknown states are left out.
    """
    vocab, end = self.world.vocab, self.world.end
    ways = [
      {token: head for token, head in heads.items() if head >= 0}
      for heads in self.automaton.heads
    ]
    alive = [k for k, edges in enumerate(ways) if edges or end == core.DEAD]
    final = [f's{k}' for k in alive if end in ways[k]]
    symbols = [token for k, token in enumerate(vocab) if k not in (0, end)]
    return {
      'alphabet': symbols,
      'start': 's0',
      **({'accepting': final} if end != core.DEAD else {}),
      'transitions': {
        f's{k}': {
          vocab[token]: f's{head}'
          for token, head in ways[k].items()
          if token != end
        }
        for k in alive
      },
    }


def extract(
  loaded: scoring.Loaded,
  options: Extraction,
  accept: rules.Accept,
  seed: int = 0,
) -> Extracted:
  """Learns, bounds and compares the automaton; see `wm.extract`."""
  predictor, world = loaded.predictor, loaded.world
  assert isinstance(predictor, core.Predictor)  # The caller's check.
  learned = implied.imply(predictor, world, accept, options, seed)
  checked = _checked(learned, options, seed)
  automaton, truth = learned.automaton, learned.truth
  comparison, unexplored = learned.compare(), automaton.into(UNEXPLORED)
  summary: dict[str, Any] = {
    'states': len(automaton.access),
    'unexplored': len(unexplored),
    'stopped': learned.stopped
    and f'the budget of {learned.stopped} is used up',
    'queries': learned.teacher.queries,
    'rounds': learned.rounds,
    'depth': learned.teacher.depth,
    **checked,
  }
  if truth is None or comparison is None:
    summary['not_compared'] = learned.too_large
    return Extracted(automaton, world, truth, comparison, summary)
  names, first = truth.names, comparison.first
  separators = implied.Separators(truth.automaton)

  def spelled(word: Tokens) -> str:
    return ' '.join(world.vocab[token] for token in word)

  summary |= {
    'world_states': len(names),
    'states_met': len(comparison.pairs),
    'equal': first is None and not (learned.stopped or unexplored),
    'distance': comparison.distance,
    'first_difference': None if first is None else spelled(first),
    'pairs': comparison.told_apart[1],
    'told_apart': comparison.told_apart[0],
    'merged': [
      {
        'states': [names[state] for state in group],
        'told_apart_by': spelled(separators.suffix(*group[:2])),
      }
      for group in comparison.merged
    ],
    'split': {names[k]: num for k, num in comparison.split.items()},
    'edges': comparison.edges,
  }
  return Extracted(automaton, world, truth, comparison, summary)


def write(
  loaded: scoring.Loaded,
  options: Extraction,
  accept: rules.Accept,
  seed: int,
  out: str | pathlib.Path,
) -> Extracted:
  """Extracts into a folder: extraction.json, automaton.json.

  Raises:
    InputError: the folder holds another run, or a damaged extraction.json.
  """
  out = pathlib.Path(out)
  if (out / FILE).exists():  # A damaged file is refused.
    files.read_record(out / FILE, {'states': int, 'queries': int})
  about = {
    'model': loaded.name,
    'world': registry.spec(loaded.world),
    'world_version': loaded.world.version,
    'accept': registry.spec(accept),
    'seed': seed,
    **dataclasses.asdict(options),
    **loaded.about,
  }
  with files.stage_lock(out, STAGE), files.unclaim_on_bad_input(out, STAGE):
    files.claim(out, STAGE, about)
    extracted = extract(loaded, options, accept, seed)
    commit = {'commit': provenance.commit()}
    whole = {**about, **commit, **extracted.summary}
    files.write_json(out / MACHINE, extracted.machine())
    files.write_json(out / FILE, whole)
  return extracted


def _checked(
  learned: implied.Implied, options: Extraction, seed: int
) -> dict[str, Any]:
  """Counts and bounds of differences on fresh walks."""
  teacher, learner = learned.teacher, learned.learner
  # The budget suffices for all of them; a truncated sample would be biased.
  num = min(options.walks, (teacher.budget - teacher.queries) // 2)
  walker = implied.Walker(learned.world, num, teacher.depth - 1, seed)
  legal = walker.legal(FRESH)
  walks = legal, walker.accepted(FRESH, learner.automaton)
  teacher.answers([*legal, *walks[1]])
  bounds: dict[str, Any] = {}
  for name, words in zip(WALKS, walks, strict=True):
    learner.explore(words)
    wrong = sum(map(learner.is_wrong, words))
    # One-sided (Clopper and Pearson).
    most = scipy.special.betaincinv(wrong + 1, num - wrong, CONFIDENCE)
    most = float(most) if wrong < num else 1.0
    bounds[name] = {'n': num, 'differ': wrong, 'at_most': most}
  places = learned.places(legal)
  share = 1 - len({*places.row[places.wrong > 0].tolist()}) / num
  low, high = map(float, statistics.proportion(share, num))
  return {
    **bounds,
    'agreement': {'n': num, 'value': share, 'low': low, 'high': high},
    'wrong_places': float(places.wrong.mean()),
  }
