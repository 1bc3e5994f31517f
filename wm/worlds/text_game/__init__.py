"""Text games as worlds, and what MANGO asks about their maps.

maze       a map: places, edges, and the steps at which they are known
folders    files of games, from a folder or a packed archive
readers    mazes of the three published generations
skeletons  the benchmark's questions, with labels for every prefix
minigames  the steps of a walkthrough that go where it went before
world      the world `text_game`: walks on one maze
"""

from wm.worlds.text_game.world import World

__all__ = ['World']
