"""Seating puzzles: the world and its questions in words."""

from wm.worlds.seating.world import World

__all__ = ['World']
