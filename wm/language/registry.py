"""What Inspect finds by the entry point `wm`: tasks and providers, by imports.

Importing it imports no JAX and no Numba: worlds and metrics are imported when
a task is made.
"""

from wm import papers
from wm.language import eval_logs, providers
from wm.language.world.tasks import world

TASKS = [papers.load(paper, 'task') for paper in papers.names()]

__all__ = ['TASKS', 'eval_logs', 'providers', 'world']
