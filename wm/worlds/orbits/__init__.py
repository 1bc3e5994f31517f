"""Planets and their suns, seen at equal steps of time, as a world."""

from wm.worlds.orbits.world import World

__all__ = ['World']
