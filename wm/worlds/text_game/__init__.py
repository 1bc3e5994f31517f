"""Text games as worlds, and what MANGO asks about their maps.

maze       a map: places, edges, and the steps at which they are known
readers    mazes of the three published generations, from a folder or archive;
           writes the format of the camera-ready data
skeletons  the benchmark's questions, with labels for every prefix
minigames  steps of a walkthrough that go where it has been
walks      the base of worlds whose sequences are walks on a maze
world      the world `text_game`: walks on one maze
"""

from wm.worlds.text_game.readers import read, read_all, write
from wm.worlds.text_game.world import World

__all__ = ['World', 'read', 'read_all', 'write']
