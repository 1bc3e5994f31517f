"""What Inspect finds by the entry point `wm`: tasks and providers, by imports.

Importing it imports no JAX and no Numba: worlds and metrics are imported when
a task is made.
"""

from wm.language import providers, replayed
from wm.language.cogeval.tasks import cogeval
from wm.language.forces.tasks import forces
from wm.language.mango.minigame_tasks import mango_minigames
from wm.language.mango.tasks import mango_destination, mango_route
from wm.language.seating.tasks import seating
from wm.language.world.tasks import world

__all__ = [
  'cogeval',
  'forces',
  'mango_destination',
  'mango_minigames',
  'mango_route',
  'providers',
  'replayed',
  'seating',
  'world',
]
