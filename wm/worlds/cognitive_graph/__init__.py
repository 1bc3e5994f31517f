"""CogEval's graphs, their changes, questions about them, and the world."""

from wm.worlds.cognitive_graph.world import World

__all__ = ['World']
