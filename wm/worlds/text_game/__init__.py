"""Text games as worlds, and what MANGO asks about their maps.

maze       a map: places, edges, and the steps at which they are known
folders    files of games, from a folder or a packed archive
readers    mazes of the three published generations
skeletons  the benchmark's questions, with labels for every prefix
minigames  steps of a walkthrough that go where it has been
writing    a maze in the format of the camera-ready data
places     sets of places, where an action has several outcomes
walks      what worlds share whose sequences are walks on a maze
words      mazes told in words
world      the world `text_game`: walks on one maze
"""

from wm.worlds.text_game.readers import read, read_all, write
from wm.worlds.text_game.world import World

__all__ = ['World', 'read', 'read_all', 'write']
