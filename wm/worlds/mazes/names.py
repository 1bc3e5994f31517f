"""Names of places."""

from __future__ import annotations

import itertools

import numpy as np

PLACES = (
  'hall',
  'kitchen',
  'library',
  'garden',
  'chapel',
  'gallery',
  'stable',
  'workshop',
  'pantry',
  'study',
  'armory',
  'courtyard',
  'orchard',
  'tower',
  'vault',
  'crypt',
  'bakery',
  'laundry',
  'nursery',
  'bridge',
  'meadow',
  'cave',
  'quarry',
  'mill',
  'harbor',
  'market',
  'theater',
  'prison',
  'smithy',
  'brewery',
  'dormitory',
  'observatory',
)
SMALL = (
  'tent',
  'wardrobe',
  'cart',
  'boat',
  'closet',
  'barrel',
  'shed',
  'coach',
  'crate',
  'kiosk',
  'hut',
  'booth',
)
MARKS = (
  'north end',
  'south end',
  'east end',
  'west end',
  'near the stairs',
  'by the window',
  'under the dome',
  'behind the pillar',
)
COLORS = ('', 'red ', 'blue ', 'green ', 'white ', 'black ', 'gray ', 'gold ')
MOST = len(COLORS) * len(PLACES)
MOST_SMALL = len(COLORS) * len(SMALL)


def places(num: int, confusable: int, rng: np.random.Generator) -> list[str]:
  """Unlike names of at most MOST places, some of them alike but for a mark."""
  plain = _drawn(PLACES, num, rng)
  groups = -(-confusable // len(MARKS))
  pairs = itertools.product(plain[:groups], MARKS)
  alike = [f'{noun} ({mark})' for noun, mark in pairs]
  found = alike[:confusable] + plain[confusable:]
  return [found[k] for k in rng.permutation(num)]


def small(num: int, rng: np.random.Generator) -> list[str]:
  """Unlike names of at most MOST_SMALL places that are entered and left."""
  return _drawn(SMALL, num, rng)


def _drawn(
  nouns: tuple[str, ...], num: int, rng: np.random.Generator
) -> list[str]:
  """Nouns in random order, and again with a color before them."""
  found = []
  for color in COLORS:
    found += [color + nouns[k] for k in rng.permutation(len(nouns))]
  return found[:num]
