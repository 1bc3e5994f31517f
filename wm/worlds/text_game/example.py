"""A small game that is there without data: a hotel whose lift stops at random.

    gate --- yard --- hall --- bar
              ^       |  |
              |     lift  +-up- attic --- the maid's room
              |       |
              +-jump- roof

The lift lets out in the hall or on the roof. From the bar, southwest is the
yard. The way back from the maid's room is only imputed.
"""

from __future__ import annotations

from wm.worlds.text_game import maze as mazes

# source, action, target; then the steps that walk the edge, and its opposite.
ROWS = (
  ('yard', 'north', 'hall', 1, 5),
  ('hall', 'east', 'bar', 2, 3),
  ('bar', 'west', 'hall', 3, 2),
  ('bar', 'southwest', 'yard', 23, mazes.NEVER),
  ('hall', 'up', 'attic', 9, 10),
  ('attic', 'down', 'hall', 10, 9),
  ('hall', 'south', 'yard', 5, 1),
  ('hall', 'enter lift', 'lift', 7, mazes.NEVER),
  ('lift', 'out', 'hall', 8, mazes.NEVER),
  ('lift', 'out', 'roof', 12, mazes.NEVER),
  ('roof', 'jump', 'yard', 13, mazes.NEVER),
  ('roof', 'enter lift', 'lift', 15, mazes.NEVER),
  ('yard', 'west', 'gate', 16, 18),
  ('gate', 'east', 'yard', 18, 16),
  ('attic', 'east', "the maid's room", 20, mazes.NEVER),
  ("the maid's room", 'west', 'attic', mazes.NEVER, 20),
)


def hotel() -> mazes.Maze:
  """The map of the example."""
  triples = [row[:3] for row in ROWS]
  places = list(dict.fromkeys(n for u, _, v in triples for n in (u, v)))
  actions = list(dict.fromkeys(action for _, action, _ in triples))
  stamps = [[f, r, min(f, r)] * 2 for *_, f, r in ROWS]
  names = places, actions
  where = 'the example'
  return mazes.made('hotel', 'camera_ready', names, triples, stamps, where)
