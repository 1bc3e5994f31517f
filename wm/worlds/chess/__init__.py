"""Chess: positions, moves, notation and records as a world."""

from wm.worlds.chess.world import World

__all__ = ['World']
