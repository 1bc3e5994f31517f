"""Generated mazes with a known truth, in the manner of text games.

layout       places and passages, drawn by a seed
walkthrough  a walk that sees every passage, told as a game tells it
world        the world `mazes`
"""

from wm.worlds.mazes.world import World

__all__ = ['World']
