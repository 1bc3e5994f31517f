"""Planets around a star, each on its own Kepler orbit, in the plane.

motion        positions, states and bins of many systems
fits          orbits fitted to where bodies were seen
rows          what these say of the rows to come
powers        the same of a force that falls as any power
orbits_numba, fits_numba, powers_numba  the compiled forms
"""

from wm.kernels.orbits.fits import FEWEST, Fits, fit, foretold
from wm.kernels.orbits.motion import GRAVITY, Systems, bins, positions, states
from wm.kernels.orbits.powers import Powers, fit_power
from wm.kernels.orbits.rows import FIRST, ahead, through, turns
