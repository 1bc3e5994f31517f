"""Othello: the world and records of its games."""

from wm.worlds.othello.world import World

__all__ = ['World']
