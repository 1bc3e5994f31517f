"""What Inspect imports to find the tasks and models `wm/...`; see setup.py.

It imports no JAX and no Numba: worlds and metrics are imported when a task is
made.
"""

from wm.language import papers, providers
from wm.language.world_task import world

TASKS = [papers.load(paper, 'task') for paper in papers.names()]

__all__ = ['TASKS', 'providers', 'world']
