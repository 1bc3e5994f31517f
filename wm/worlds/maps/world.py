"""Street maps, and the sequences that travel on them.

A sequence is `origin destination direction ... direction end`. The map is
read from files or generated; its states and rules are `navigation`'s.

Street maps in words: streets one by one, or what leaves each intersection.

streets   From Mira, north leads to Kulo.
places    At Mira you can go N (to Kulo) or E (to Bado).
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from typing import ClassVar

import numpy as np

from wm import core
from wm.core import basics, resources
from wm.core.fields import field, field_error
from wm.core.predictor import Tokens
from wm.worlds.base import sampling, verbal
from wm.worlds.maps import navigation, osm, processes, routes, streets
from wm.worlds.maps import trips as trip_files
from wm.worlds.maps.navigation import DIRECTION0, END, NODE0, Journeys

# Length limits in number of directions. Random walks run to 99 of them; the
# published shortest and noisy routes keep under 100 tokens in all.
MAX_MOVES = {'random': 99, 'shortest': 96, 'noisy': 96}
MIN_MOVES = 2
# Bytes at least: of routes that are planned at once, a move; of a weighting.
PLANNED, ROADS = 1024, 256
# Held-out pairs by default, and the steps that their share is set in.
SHARE = 1 / sampling.HELDOUT


TEXTS = verbal.Texts(__file__)

COMPASS = (
  'north',
  'northeast',
  'east',
  'southeast',
  'south',
  'southwest',
  'west',
  'northwest',
)

_DIRECTIONS = {'streets': COMPASS, 'places': streets.DIRECTIONS}
_END = {'streets': 'stop', 'places': 'arrive'}
_TELL = {
  'streets': functools.partial(
    verbal.by_step,
    step='From {here}, {label} leads to {there}.',
    none='From {here}, no street leads on.',
  ),
  'places': functools.partial(
    verbal.by_row,
    row='At {here} you can go {steps}.',
    step='{label} (to {there})',
    between=' or ',
    none='nowhere',
  ),
}


class VerbalMaps(Journeys, core.Verbal):
  """Trips on `graph`, told in words."""

  wordings: ClassVar[tuple[str, ...]] = ('streets', 'places')

  @property
  @abc.abstractmethod
  def graph(self) -> streets.StreetGraph:
    """The street graph."""

  def token_names(self, telling: core.PromptStyle) -> tuple[str, ...]:
    """Directions in words, and the intersections' names or new ones."""
    wording = core.verbal.wording_of(self, telling)
    names = self.vocab[NODE0:]
    if telling.seed:
      names = core.verbal.new_names(len(self.graph), telling)
    return ('<pad>', _END[wording], *_DIRECTIONS[wording], *names)

  def _table(self, telling: core.PromptStyle) -> verbal.Table:
    spoken = self.token_names(telling)
    return verbal.Table(
      self.graph.delta, spoken[NODE0:], spoken[DIRECTION0:NODE0]
    )

  def rules(self, telling: core.PromptStyle) -> str:
    """See core.Verbal: all intersections by name, and all streets."""
    wording, table = core.verbal.wording_of(self, telling), self._table(telling)
    rows = core.verbal.shuffled(len(table.names), telling)
    return TEXTS.render(
      wording,
      num=len(rows),
      names=', '.join(table.names[row] for row in rows),
      body='\n'.join(_TELL[wording](table, rows, telling)),
    )

  def render_trajectory(self, tokens: Tokens, telling: core.PromptStyle) -> str:
    """See core.Verbal: with the intersections that it passes."""
    names = self._table(telling).names
    place = tokens[0] - NODE0
    passed = [names[place]]
    for token in tokens[self.prompt_len :]:
      if token >= DIRECTION0:
        place = int(self.graph.delta[place, token - DIRECTION0])
        passed.append(names[place])
    words = self.render_tokens(tokens, telling)
    return f'{words}. It is at, in this order: {", ".join(passed)}.'

  def extent(self, telling: core.PromptStyle) -> core.verbal.Extent:
    """See core.Verbal."""
    wording, table = core.verbal.wording_of(self, telling), self._table(telling)

    def tell(rows: np.ndarray) -> list[str]:
      return _TELL[wording](table, rows, telling)

    return verbal.extent(table, tell, 'intersections', TEXTS.frame(wording))


@dataclasses.dataclass(frozen=True)
class World(
  navigation.Navigation,
  VerbalMaps,
  core.Costed,
  core.Described,
  core.Generative,
):
  """A street map and how sequences travel on it.

  Attributes:
    nodes: CSV file of intersections (osm_id, lat, lon), with `edges`.
    edges: CSV file of streets (node, direction, neighbor[, length_m]).
    rows: crossings along the generated city, which is used without files.
    traversal: 'random' walks, 'shortest' paths, or 'noisy' shortest paths.
    trips: TLC file, or a folder of them, that origins and destinations are
      from; default uniform.
    nearest: intersection that an end of a trip goes to: nearest in 'metres', or
      in 'degrees' as published.
    max_moves: longest sequence in directions; 0 is MAX_MOVES[traversal], and
      prefixes of trials as published. Prefixes follow any other value.
    turns: CSV file of the order in which the published program takes the
      directions of each intersection (node, directions); default clockwise from
      north. Only boundary='published' depends on it.
    heldout: share of the pairs of origin and destination that the held-out
      split has, in steps of 1 / sampling.HELDOUT.
  """

  version: ClassVar[str] = '1'

  nodes: str = ''
  edges: str = ''
  file: str = field('', 'GraphML or OSM XML file instead of these')
  rows: int = 8
  columns: int = field(8, 'crossings across it')
  city_seed: int = field(0, 'seed of the generated city', least=0)
  traversal: str = field('random', choices=tuple(MAX_MOVES))
  trips: str = ''
  nearest: str = field('metres', choices=trip_files.RULES)
  weightings: int = field(50, 'number of noisy weightings', least=1)
  noise_seed: int = field(0, 'seed of the noisy weightings', least=0)
  max_moves: int = field(0, least=MIN_MOVES, also=(0,), unit='moves')
  turns: str = ''
  heldout: float = field(
    1 / sampling.HELDOUT,
    least=1 / sampling.HELDOUT,
    most=1 - 1 / sampling.HELDOUT,
  )

  def cost(self, world: core.World | None = None) -> core.Cost:
    """See core.Bounded; and the lengths of streets under all weightings."""
    del world
    names, more = ['max_moves'], PLANNED * self.max_moves
    if self.traversal == 'noisy':
      names, more = [*names, 'weightings'], more + ROADS * self.weightings
    return resources.sequences_cost(self.max_moves, *names, more=more)

  def __post_init__(self) -> None:
    super().__post_init__()
    if bool(self.nodes) != bool(self.edges) or (self.nodes and self.file):
      raise field_error(
        self, 'nodes edges file', 'nodes and edges, or file, or neither'
      )
    parts = self.heldout * sampling.HELDOUT
    if abs(parts - round(parts)) > 1e-9:
      expected = f'{SHARE} to {1 - SHARE} in steps of {SHARE}'
      raise field_error(self, 'heldout', expected)
    if self.trips and self.traversal == 'random':
      expected = "traversal='shortest' or 'noisy' with trips"
      raise field_error(self, 'trips traversal', expected)

  @functools.cached_property
  def graph(self) -> streets.StreetGraph:
    """The street graph; raises InputError where its files are bad."""
    if self.nodes:
      return streets.load_csv(self.nodes, self.edges)
    if self.file:
      return osm.load(self.file)
    return streets.generate(self.rows, self.columns, self.city_seed)

  @property
  def moves(self) -> int:
    """Most directions in a sequence."""
    return self.max_moves or MAX_MOVES[self.traversal]

  @property
  def prefix_limit(self) -> int:
    """As published for every traversal, unless `max_moves` is given."""
    return self.max_moves or navigation.PREFIX_MOVES

  @functools.cached_property
  def turns_known(self) -> tuple[np.ndarray | None, np.ndarray | None]:
    """See table.Tabled."""
    if not self.turns:
      return super().turns_known
    return streets.load_turns(self.turns, self.graph)

  def split_key(self, sequences: core.Sequences) -> np.ndarray:
    """[N] uint64 of origin and destination, by node id."""
    ends = sequences.tokens[:, :2] - NODE0
    ids = self.graph.ids[np.clip(ends, 0, len(self.graph) - 1)]
    return basics.hash64(ids[:, 0], ids[:, 1])

  def _in_split(
    self, origins: np.ndarray, destinations: np.ndarray, split: str
  ) -> np.ndarray:
    """[N] bool: do pairs of rows belong to a split?"""
    ids = self.graph.ids
    key = basics.hash64(ids[origins], ids[destinations])
    return sampling.in_split(key, split, round(self.heldout * sampling.HELDOUT))

  def sample(self, num: int, seed: int, split: str = 'all') -> core.Sequences:
    """Sequences of the world's traversal; `counts` says what was dropped.

    Shortest and noisy routes are drawn without replacement: there are fewer
    than `num` where pairs run out. `side` names the noisy weighting of each.
    """

    def wanted(origins: np.ndarray, ends: np.ndarray) -> np.ndarray:
      return self._in_split(origins, ends, split)

    if self.traversal == 'random':
      batches = routes.walks(
        self.graph.delta, MIN_MOVES, self.moves, seed, num, wanted
      )
    else:
      weightings = self.weightings if self.traversal == 'noisy' else 0
      pairs, size = self._pairs
      bounds = MIN_MOVES, self.moves
      batches = routes.planned(
        self._roads, weightings, pairs, size, bounds, seed, num, wanted
      )
    if self.traversal == 'noisy':
      batches = routes.fresh(batches)
    drawn, counts = routes.collect(batches, num, self.moves)
    return self._sequences(drawn, counts)

  def data_distribution(
    self, split: str = 'all', distinct: bool = False, replan: bool = False
  ) -> processes.Routes:
    """See core.Generative and `processes`.

    What follows origin and destination does not depend on the split: a pair
    that is not in it goes on as it would.
    """

    def wanted(origins: np.ndarray, ends: np.ndarray) -> np.ndarray:
      usable = self._in_split(origins, ends, split)
      if self.trips:
        trips = self._trips.pairs @ (len(self.graph), 1)
        usable &= np.isin(origins * len(self.graph) + ends, trips)
      return usable

    sampling.check_split(split)
    if self.traversal == 'random':
      if distinct:
        raise core.InputError(
          "maps: distinct=True and traversal='random'; random walks are drawn "
          "with repeats: only 'shortest' and 'noisy' are drawn without"
        )
      return processes.Walks(self, wanted, MIN_MOVES, replan)
    noisy = self.traversal == 'noisy'
    numbers = range(self.weightings) if noisy else [core.DEAD]
    lengths = [self._roads(number).lengths for number in numbers]
    if not replan:
      return processes.PlannedRoutes(self, wanted, MIN_MOVES, lengths, distinct)
    if distinct and noisy:
      raise core.InputError(
        "maps: replan=True, distinct=True and traversal='noisy': which "
        'weighting is meant is known of sequences with repeats only'
      )
    return processes.Replanned(self, wanted, MIN_MOVES, lengths)

  def stats(self) -> dict[str, int]:
    """Size of the graph, what is reached in it, what loading resolved, trips.

    See `streets.facts`, `streets.build` and `trips.load`.
    """
    size = {
      'intersections': len(self.graph),
      'streets': self.graph.num_edges,
    }
    return size | self._reached | self.graph.counts | self._trips.counts

  @functools.cached_property
  def _reached(self) -> dict[str, int]:
    return streets.facts(self.graph)

  @functools.cached_property
  def _trips(self) -> trip_files.Trips:
    """Trips of the file, each pair once; none where pairs are uniform."""
    if not self.trips:
      return trip_files.Trips(np.zeros((0, 2), np.int64), {})
    loaded, counts = trip_files.load(self.trips, self.graph, self.nearest)
    pairs = np.unique(loaded, axis=0)
    if not len(pairs):
      raise core.InputError(
        f'{self.trips}: none of its {counts["trips"]} trips is on the map'
      )
    names = {f'trips: {cause}': number for cause, number in counts.items()}
    names['trips: same pair'] = len(loaded) - len(pairs)
    return trip_files.Trips(pairs, names)

  @property
  def _pairs(self) -> tuple[routes.Numbered, int]:
    """Function from numbers to origins and destinations, and how many."""
    size = len(self.graph)
    if not self.trips:
      return lambda number: np.divmod(number, size), size * size
    pairs = self._trips.pairs
    return lambda number: (pairs[number, 0], pairs[number, 1]), len(pairs)

  @functools.cached_property
  def _tables(self) -> dict[int, routes.Roads]:
    return {}

  def _roads(self, number: int) -> routes.Roads:
    """Roads under a noisy weighting, or DEAD: under true lengths."""
    if number not in self._tables:
      lengths = self.graph.length_m
      if number != core.DEAD:
        lengths = routes.weighting(lengths, self.noise_seed, number)
      self._tables[number] = routes.Roads(self.graph.delta, lengths)
    return self._tables[number]

  def _sequences(
    self, drawn: routes.Routes, counts: dict[str, int]
  ) -> core.Sequences:
    """Routes as tokens."""
    tokens = np.zeros((len(drawn.moves), self.max_len), np.int32)
    tokens[:, 0] = drawn.origins + NODE0
    tokens[:, 1] = drawn.destinations + NODE0
    np.add(drawn.labels, DIRECTION0, out=tokens[:, 2:-1])
    tokens[:, 2:-1] *= drawn.labels >= 0
    tokens[np.arange(len(tokens)), drawn.moves + 2] = END
    noisy = self.traversal == 'noisy'
    side = {'weighting': drawn.weighting} if noisy else {}
    lengths = (drawn.moves + 3).astype(np.int32)
    distinct = self.traversal != 'random'  # Walks may repeat.
    return core.Sequences(tokens, lengths, side, counts, distinct)

  def costs(self, sequences: core.Sequences) -> core.Costs:
    """Metres travelled, and of the shortest path of each pair (Dijkstra).

    The first row is under true lengths; others, of noisy shortest paths, under
    each noisy weighting (section 2).
    """
    tokens, delta = sequences.tokens, self.graph.delta
    pairs = tokens[:, :2] - NODE0
    named = np.all((pairs >= 0) & (pairs < len(delta)), axis=1)
    origins, ends = np.where(named[:, None], pairs, core.DEAD).T
    labels = self._labels(tokens, np.zeros(len(tokens), np.int32))[:, 2:]
    inside = np.arange(2, tokens.shape[1]) < sequences.lengths[:, None]
    labels = np.where(inside & (labels < NODE0 - DIRECTION0), labels, core.DEAD)
    going, rows = labels >= 0, routes.trace(delta, origins, labels)
    lost = (going & (rows[:, 1:] < 0)).any(1) | ~named
    numbers = [core.DEAD]
    if self.traversal == 'noisy':
      numbers += range(self.weightings)
    cost, least = np.full((2, len(numbers), len(tokens)), np.nan)
    for k, number in enumerate(numbers):
      roads = self._roads(number)
      steps = np.where(going, roads.lengths[rows[:, :-1], labels], 0.0)
      cost[k] = np.where(lost, np.nan, steps.sum(1))
      least[k, named] = roads.metres(origins[named], ends[named])
    return core.Costs(cost, np.where(np.isfinite(least), least, np.nan))
