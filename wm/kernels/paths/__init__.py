"""All simple paths of a directed multigraph, with labels along them.

simple        paths in depth-first order, counted before they are listed
simple_numba  what simple does, compiled; `ref` is the plain specification
"""

from wm.kernels.paths.simple import MOST, Paths, count, simple
