"""Planets around a star, each on its own Kepler orbit, in the plane.

motion        positions, states and bins of many systems
fits          orbits fitted to where bodies were seen, and where they lead
powers        the same of a force that falls as any power
"""

from wm.kernels.orbits.fits import (
  FEWEST,
  FIRST,
  Fits,
  ahead,
  fit,
  foretold,
  through,
  turns,
)
from wm.kernels.orbits.motion import GRAVITY, Systems, bins, positions, states
from wm.kernels.orbits.powers import Powers, fit_power
