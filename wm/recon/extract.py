"""Extracts the automaton that a model implies, and compares it to the world's.

wm.evaluation.implied -> summary -> files
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Sequence
from typing import Any

import scipy

from wm import core
from wm.core import accept as rules
from wm.core import registry
from wm.core.predictor import Tokens
from wm.evaluation import implied, scoring, statistics
from wm.evaluation.automaton_learner import MooreMachine
from wm.options.calls import Extraction
from wm.runtime import files, provenance

STAGE = 'extract'
FILE, MACHINE = 'extraction.json', 'automaton.json'
CONFIDENCE = 0.95
# Kinds of walks with an error bound (probably approximately correct).
WALKS = {
  'world_walks': 'fresh walks of the world',
  'model_walks': 'fresh walks of the model',
}
SHOWN = 8  # Most lines for each kind of difference.
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
    """The summary as lines of text."""
    return lines(self.summary)

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
  automaton, comparison = learned.automaton, learned.compare()
  summary: dict[str, Any] = {
    'states': len(automaton.access),
    'unexplored': automaton.unexplored,
    'stopped': learned.stopped
    and f'the budget of {learned.stopped} is used up',
    'queries': learned.teacher.queries,
    'rounds': learned.rounds,
    'depth': learned.teacher.depth,
    **checked,
  }
  if learned.truth is None or comparison is None:
    summary['not_compared'] = learned.too_large
  else:
    summary |= _differences(learned, learned.truth, comparison)
  return Extracted(automaton, world, learned.truth, comparison, summary)


def write(
  loaded: scoring.Loaded,
  options: Extraction,
  accept: rules.Accept,
  seed: int,
  out: str | pathlib.Path,
) -> Extracted:
  """Extracts into a folder: extraction.json, automaton.json.

  A killed run resumes from its stored answers.

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
    bounds[name] = {'n': num, 'differ': wrong, 'at_most': _upper(wrong, num)}
  places = learned.places(legal)
  share = 1 - len({*places.row[places.wrong > 0].tolist()}) / num
  low, high = map(float, statistics.proportion(share, num))
  return {
    **bounds,
    'agreement': {'n': num, 'value': share, 'low': low, 'high': high},
    'wrong_places': float(places.wrong.mean()),
  }


def _upper(hits: int, num: int) -> float:
  """Upper bound of a share at CONFIDENCE (Clopper and Pearson, one-sided)."""
  if hits >= num:
    return 1.0
  return float(scipy.special.betaincinv(hits + 1, num - hits, CONFIDENCE))


def _differences(
  learned: implied.Implied,
  truth: implied.Truth,
  comparison: implied.Differences,
) -> dict[str, Any]:
  """The comparison as JSON values with names."""
  names, vocab = truth.names, truth.world.vocab
  separators = implied.Separators(truth.automaton, len(vocab))

  def spelled(word: Tokens) -> str:
    return ' '.join(vocab[token] for token in word)

  first = comparison.first
  return {
    'world_states': len(names),
    'states_met': len(comparison.pairs),
    'equal': first is None
    and not (learned.stopped or learned.automaton.unexplored),
    'distance': comparison.distance,
    'first_difference': None if first is None else spelled(first),
    'pairs': comparison.told_apart[1],
    'told_apart': comparison.told_apart[0],
    'suffix_lengths': comparison.lengths,
    'merged': [
      {
        'states': [names[state] for state in group],
        'told_apart_by': spelled(separators.suffix(*group[:2])),
      }
      for group in comparison.merged
    ],
    'split': {names[k]: num for k, num in comparison.split.items()},
    'edges': [
      {
        'state': names[edge.state],
        'token': vocab[edge.token],
        'kind': edge.kind,
        'always': edge.always,
        'to': [names[head] for head in edge.heads],
      }
      for edge in comparison.edges
    ],
  }


def lines(summary: dict[str, Any]) -> list[str]:
  """A summary as lines of text."""
  compared = 'world_states' in summary
  theirs = f'; the world has {summary["world_states"]}' if compared else ''
  text = [
    f'states {summary["states"]}{theirs}',
    f'queries {summary["queries"]:,} in {summary["rounds"]} rounds, words of '
    f'at most {summary["depth"]} tokens',
  ]
  if summary['stopped']:
    text.append(
      f'{summary["stopped"]}: {summary["unexplored"]} edges are unexplored'
    )
  for name, words in WALKS.items():
    bound = summary[name]
    text.append(
      f'{words}: {bound["differ"]} of {bound["n"]} differ from the automaton, '
      f'with {CONFIDENCE:.0%} confidence at most {bound["at_most"]:.2%} of all'
    )
  if any(summary[name]['differ'] for name in WALKS):
    text.append(
      'what follows is of the automaton, which is not yet that of the model'
    )
  share = summary['agreement']
  text.append(
    f'agrees with the world on {share["value"]:.3f} [{share["low"]:.3f}, '
    f'{share["high"]:.3f}] of its sequences; wrong_places '
    f'{summary["wrong_places"]:.4f}'
  )
  return [*text, *(_told(summary) if compared else [summary['not_compared']])]


def _told(summary: dict[str, Any]) -> list[str]:
  """Lines on the differences."""
  text = []
  if summary['equal']:
    text.append('distance 0: the accepted words are the legal ones')
  elif summary['first_difference'] is None:
    text.append('no difference between the explored states and the world')
  else:
    size = round(-math.log2(summary['distance']))
    complete = not (summary['unexplored'] or summary['stopped'])
    least, part = ('', '') if complete else ('at least ', 'explored ')
    text.append(
      f'distance {least}{summary["distance"]:.4g} = 2^-{size}: the same tokens '
      f'follow all {part}words of fewer than {size} tokens, and others follow '
      f'{summary["first_difference"]!r}'
    )
  text.append(
    f'pairs of states told apart {summary["told_apart"]} of {summary["pairs"]}'
  )
  if summary['suffix_lengths']:
    theirs, mine = summary['suffix_lengths']
    text[-1] += (
      f', by suffixes of {mine:.2f} tokens in the mean; the world needs '
      f'{theirs:.2f}'
    )
  kinds = {
    'merged': [
      f'{_few(x["states"])}; in the world {x["told_apart_by"]!r} tells the '
      'first two apart'
      for x in summary['merged']
    ],
    'split': [f'{k} into {n}' for k, n in summary['split'].items()],
    'missing': [_edge(x) for x in summary['edges'] if x['kind'] == 'missing'],
    'extra': [_edge(x) for x in summary['edges'] if x['kind'] == 'extra'],
  }
  for kind, items in kinds.items():
    text.append(f'{kind} {len(items)}')
    text += [f'  {item}' for item in items[:SHOWN]]
    if len(items) > SHOWN:
      text.append(f'  and {len(items) - SHOWN} more')
  return text


def _edge(edge: dict[str, Any]) -> str:
  often = '' if edge['always'] else ', after some words'
  to = f' to {_few(edge["to"])}' if edge['to'] else ''
  return f'{edge["token"]!r} from {edge["state"]}{to}{often}'


def _few(names: Sequence[str]) -> str:
  more = len(names) - implied.MEMBERS
  shown = ' | '.join(names[: implied.MEMBERS])
  return f'{shown} | {more} more' if more > 0 else shown
