"""Bring your own automaton: tables, graphs, regular expressions, presets."""

from wm.worlds.automaton.world import World

__all__ = ['World']
