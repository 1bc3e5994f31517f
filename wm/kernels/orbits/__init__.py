"""Planets around a star, each on its own Kepler orbit, in the plane.

motion        positions, states and bins of many systems
orbits_numba  the compiled form
ref           the same in plain Python: the specification
"""

from wm.kernels.orbits.motion import GRAVITY, Systems, bins, positions, states
