"""What the nodes of a graph are called, by domain.

The three main domains are those of CogEval; `objects` and `letters` are names
that no story goes with. A seed above 0 gives the names to other nodes.
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Mapping, Sequence

import numpy as np

from wm import core
from wm.core import basics
from wm.worlds.cognitive_graph import graphs


def words(text: str) -> tuple[str, ...]:
  """The words of a text."""
  return tuple(text.split())


FIELDS = words(
  'rose sunflower tulip daisy orchid hydrangea lily peony daffodil '
  'chrysanthemum carnation marigold poppy zinnia lavender aster dahlia '
  'hyacinth jasmine snapdragon iris magnolia'
)
SCHOLARS = words(
  'Amir Wim Raj Jing Wei Nisha Reza Kim Ian Moin Puja Sara Pari Pam Matt Eva '
  'Amy Gia Ming Prem Zack Vivian'
)
OBJECTS = words(
  'lamp kettle violin compass ladder mirror basket candle anchor hammer '
  'umbrella clock pillow wheel bottle camera drum feather globe helmet '
  'jacket key'
)
FIRST = {
  'unordSpatial': 'entrance',
  'socialTies': 'Vicky',
  'objects': 'doorstep',
}

DOMAINS = words('ordRooms unordSpatial socialTies objects letters')
SHORT = {'rooms': 'ordRooms', 'fields': 'unordSpatial', 'people': 'socialTies'}
# Domains in which a node 0 is no numbered place but where one comes in.
LOBBY = 'lobby'

# Other spellings of one name: graph D calls scholar 15 both.
ALIASES = {'max': 'matt'}


def domain(name: str) -> str:
  """A domain by its name or short name; raises InputError."""
  full_name = SHORT.get(name, name)
  if full_name not in DOMAINS:
    raise core.InputError(
      f'unknown domain {name!r}; available: {", ".join(DOMAINS)}, '
      f'or {", ".join(SHORT)}'
    )
  return full_name


def letters(count: int, seed: int) -> list[str]:
  """Different random letters that are no words; pairs where many are asked."""
  singles = [k for k in string.ascii_uppercase if k not in 'AI']
  consonants = [k for k in singles if k not in 'EOU']
  pairs = [''.join(pair) for pair in itertools.permutations(consonants, 2)]
  pool = singles if count <= len(singles) else pairs
  order = np.argsort(basics.hash64(seed, np.arange(len(pool))))
  return [pool[k] for k in order[:count]]


def most_nodes(graph: str) -> int:
  """Largest number of a node that a graph can have, after any change.

  The three large graphs share their names, and so this number.
  """
  name = graphs.LETTERS.get(graph, graph)
  return {'n7line': 9, 'n7tree': 8, 'n13line': 14}.get(name, 22)


def node_names(
  graph: str, domain_name: str, most: int, seed: int = 0
) -> Mapping[int, str]:
  """Node -> name, of the nodes 0..most.

  graph: a name of `graphs.GRAPHS`; n7tree has its entrance at node 1.
  most: the largest number of a node, new ones of a change included.
  seed: 0 gives the names of CogEval, another one shuffles them. Letters are
    random under any seed. The entrance and the lobby keep their names.
  """
  domain_name = domain(domain_name)
  graph = graphs.LETTERS.get(graph, graph)
  fields = domain_name == 'unordSpatial'
  first = 1 if graph == 'n7tree' and fields else 0
  places = range(first + 1, most + 1)
  if domain_name == 'letters':
    return dict(enumerate(letters(most + 1, seed)))
  names = {
    'ordRooms': [str(place) for place in places],
    'unordSpatial': _enough(FIELDS, len(places)),
    'socialTies': _enough(SCHOLARS, len(places)),
    'objects': _enough(OBJECTS, len(places)),
  }[domain_name]
  if seed:
    order = np.argsort(basics.hash64(seed, np.arange(len(places))))
    names = [names[k] for k in order]
  start = LOBBY if domain_name == 'ordRooms' else FIRST[domain_name]
  return {first: start, **dict(zip(places, names, strict=False))}


def _enough(pool: Sequence[str], count: int) -> list[str]:
  """Names, numbered anew from the first one on where they run out."""
  rounds = range(2, 2 + count // len(pool))
  return [*pool, *(f'{name}{k}' for k in rounds for name in pool)]
