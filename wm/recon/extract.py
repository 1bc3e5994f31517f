"""Extracts the automaton that a model implies, and compares it to the world's.

wm.evaluation.implied -> summary, picture -> files
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import scipy

from wm import core
from wm.core import accept as rules
from wm.core import registry
from wm.core.predictor import Tokens
from wm.evaluation import implied, scoring, statistics
from wm.evaluation.automaton_learner import MooreMachine
from wm.evaluation.implied import Differences, DifferingEdge, Truth
from wm.options.calls import Extraction
from wm.runtime import files, provenance
from wm.worlds.base import diagram, svg

STAGE = 'extract'
FILE, PICTURE = 'extraction.json', 'extraction.svg'
MACHINE = 'automaton.json'
_CODE = ('wm.evaluation.automaton_learner', 'wm.core.accept')
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

  def picture(self, name: str = 'the model') -> str:
    """SVG of the world's automaton, with the model's differences."""
    title = f'the automaton that {name} implies'
    if self.truth is None or self.comparison is None:
      return svg.card(self.lines(), title)
    return draw(self.truth, self.comparison, title)

  def _repr_svg_(self) -> str:
    return self.picture()

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
  """Extracts into a folder: extraction.json, extraction.svg, automaton.json.

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
    with _partial(loaded, accept, out):
      extracted = extract(loaded, options, accept, seed)
    commit = {'commit': provenance.commit()}
    whole = {**about, **commit, **extracted.summary}
    files.write_json(out / MACHINE, extracted.machine())
    files.write_text(out / PICTURE, extracted.picture(loaded.name))
    files.write_json(out / FILE, whole)
  return extracted


def _partial(
  loaded: scoring.Loaded, accept: rules.Accept, out: pathlib.Path
) -> contextlib.AbstractContextManager[None]:
  """Context that stores answers, to resume after a kill."""
  origin = provenance.Reader().of(*_CODE, loaded.world, loaded.origin.inputs)
  if loaded.origin.unknown:  # The next run may have another model.
    return contextlib.nullcontext()
  mark = files.hash_of([registry.spec(accept), sorted(origin.inputs.items())])
  return files.partial_results(out / f'.{STAGE}.answers', mark)


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


# Pictures of an automaton that a model implies, on the world's own.
#
# Black arrows are legal and accepted, dashed grey ones are legal and never
# accepted, red ones are accepted and illegal, as on the maps of implied
# streets (Vafa et al. 2024, figure 3). States of one fill are one state for
# the model; a state with a dashed ring is several. An automaton that is too
# large to be drawn is a table of its differences.

RIGHT = diagram.Stroke(svg.INK)
MISSING = diagram.Stroke('#9aa1ab', ' stroke-dasharray="4 3"', svg.FAINT)
EXTRA = diagram.Stroke(svg.HERE, '', svg.HERE)
LOOKS = {'right': RIGHT, 'missing': MISSING, 'extra': EXTRA}
# Of states that are one for the model: yellow, blue, green, violet, orange.
FILLS = '#f6dc85', '#a9cdf0', '#b5dfb9', '#d9bfe8', '#f3c19d'
APART = 24  # Pixels between arrows of different kinds.
STUB = 46  # Pixels of an arrow that leads to none of the world's states.
LISTED = 20  # Lines of a table of differences.

# (tail, head, kind) -> token strings; head DEAD is none of the world's states.
Arrows = dict[tuple[int, int, str], list[str]]


def draw(truth: Truth, comparison: Differences, title: str) -> str:
  """SVG of the world's minimal automaton, and where the model's differs."""
  final = _final(truth)
  arrows = _arrows(truth, comparison, final)
  inside = tuple(
    dict.fromkeys((tail, head) for tail, head, _ in arrows if head >= 0)
  )
  states = [k for k in range(len(truth.names)) if k != final]
  place = {state: row for row, state in enumerate(states)}
  pairs = tuple((place[tail], place[head]) for tail, head in inside)
  at = diagram.places(len(states), pairs)
  if not at:
    return _table(truth, comparison, title)
  if any(t == h and kind != 'right' for t, h, kind in arrows):
    at = [(x, y + 2 * APART) for x, y in at]  # Room for higher loops.
  parts = [diagram.heads(diagram.PLAIN, *LOOKS.values()), diagram.start(at[0])]
  for (tail, head, kind), symbols in arrows.items():
    ends = place[tail], place.get(head, core.DEAD)
    parts += _arrow(at, ends, kind, symbols, pairs)
  fills = _fills(comparison, final)
  for state in states:
    parts += _circle(truth, comparison, at[place[state]], state, fills)
  width, height = (max(axis) + diagram.MARGIN for axis in zip(*at, strict=True))
  notes = _notes(truth, comparison, fills)
  parts.append(svg.text(10, height + 14, title, more=svg.BOLD))
  parts += [
    svg.text(10, height + 34 + 18 * k, note, size=12, fill=svg.FAINT)
    for k, note in enumerate(notes)
  ]
  wide = max([width, *(20 + 6.5 * len(note) for note in [*notes, title])])
  return svg.picture(wide, height + 26 + 18 * len(notes), parts, title)


def _final(truth: Truth) -> int:
  """The state that only the end token leads to; DEAD without one."""
  if truth.world.end != core.DEAD:
    for heads in truth.automaton.heads:
      if truth.world.end in heads:
        return heads[truth.world.end]
  return core.DEAD


def _arrows(truth: Truth, comparison: Differences, final: int) -> Arrows:
  """All arrows but those of the end token, which is a ring."""
  kinds = {(e.state, e.token): e for e in comparison.edges}
  arrows: Arrows = {}
  for state, heads in enumerate(truth.automaton.heads):
    for token, head in heads.items():
      edge = kinds.get((state, token))
      kind = 'missing' if edge and edge.always else 'right'
      if token != truth.world.end and head != final:
        key = state, head, kind
        arrows.setdefault(key, []).append(truth.world.vocab[token])
  for edge in comparison.edges:
    if edge.kind == 'extra' and edge.token != truth.world.end:
      inside = [head for head in edge.heads if head != final]
      # One of several that are one for the model: its own state, if it can be.
      inside = [edge.state] * (edge.state in inside) + inside
      key = edge.state, inside[0] if inside else core.DEAD, 'extra'
      arrows.setdefault(key, []).append(truth.world.vocab[edge.token])
  return arrows


def _arrow(
  at: diagram.Places,
  ends: tuple[int, int],
  kind: str,
  symbols: list[str],
  pairs: tuple[tuple[int, int], ...],
) -> list[str]:
  (tail, head), look = ends, LOOKS[kind]
  if head == core.DEAD:
    x, y = at[tail]
    low, below = y + diagram.RADIUS, y + diagram.RADIUS + STUB
    return [
      diagram.path(f'M{x + 8:g} {low:g}L{x + 22:g} {below:g}', look),
      diagram.label((x + 30, below + 4), symbols, look),
    ]
  back = tail != head and (head, tail) in pairs
  bend = [*LOOKS].index(kind) * APART + diagram.BEND * back
  middle = diagram.label_place(at, tail, head, bend)
  return [
    diagram.arrow(at, tail, head, bend, look),
    diagram.label(middle, symbols, look),
  ]


def _circle(
  truth: Truth,
  comparison: Differences,
  place: tuple[float, float],
  state: int,
  fills: Mapping[int, str],
) -> list[str]:
  """A state: its ring is that of the end token, by what the model accepts."""
  edges = {(e.state, e.token): e for e in comparison.edges}
  edge = edges.get((state, truth.world.end))
  ring = ''
  if edge is not None and (edge.always or edge.kind == 'extra'):
    look = LOOKS[edge.kind]
    ring = f'stroke="{look.color}" stroke-width="1.8"{look.more}'
  elif truth.world.end in truth.automaton.heads[state]:
    ring = f'stroke="{svg.INK}"'
  fill = fills.get(state, svg.PAPER)
  parts = diagram.circle(place, truth.names[state], fill, svg.INK, ring)
  if state in comparison.split:
    dashes = f'stroke="{svg.HERE}" stroke-dasharray="3 3"'
    parts.append(svg.circle(*place, diagram.RADIUS + 4, 'none', dashes))
  return parts


def _fills(comparison: Differences, final: int) -> dict[int, str]:
  """Fill of each state that is merged with another, or never met."""
  fills: dict[int, str] = {}
  for number, group in enumerate(comparison.merged):
    inside = [state for state in group if state != final]
    for state in inside if len(inside) > 1 else ():
      fills.setdefault(state, FILLS[number % len(FILLS)])
  return fills


def _notes(
  truth: Truth,
  comparison: Differences,
  fills: Mapping[int, str],
) -> list[str]:
  """What the picture does not say by itself, a line each."""
  names = truth.names
  ends = {e.kind for e in comparison.edges if e.token == truth.world.end}
  rings = {'extra': 'red', 'missing': 'dashed'}
  end = truth.world.vocab[truth.world.end]
  notes = [f'a {rings[k]} inner ring: {end!r} is {k}' for k in sorted(ends)]
  for edge in comparison.edges:
    if edge.kind == 'missing' and not edge.always:
      notes.append(f'from {names[edge.state]} a token is missing in some words')
  notes += [
    f'{names[state]} is {number} states for the model'
    for state, number in comparison.split.items()
  ]
  if fills:
    notes.append('states of one colour are one state for the model')
  lost = len(names) - len(comparison.pairs)
  if lost:
    notes.append(f'{lost} states are never reached by accepted tokens')
  return [*dict.fromkeys(notes)][:LISTED]


def _table(truth: Truth, comparison: Differences, title: str) -> str:
  """The differences of an automaton that is too large to be drawn."""
  names = truth.names

  def row(edge: DifferingEdge) -> tuple[str, str, str, str]:
    heads = ' | '.join(names[head] for head in edge.heads[:2])
    return edge.kind, names[edge.state], truth.world.vocab[edge.token], heads

  rows = [row(edge) for edge in comparison.edges]
  rows += [
    ('merged', ' | '.join(names[k] for k in group[:3]), '', '')
    for group in comparison.merged
  ]
  rows += [
    ('split', names[k], '', f'{number} states')
    for k, number in comparison.split.items()
  ]
  if not rows:
    return svg.card(['no difference'], title)
  more = [f'and {len(rows) - LISTED} more'] * (len(rows) > LISTED)
  heads = ('difference', 'state', 'token', 'leads to')
  return svg.table(heads, rows[:LISTED], title, notes=more)
