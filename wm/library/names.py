"""Options and specs, as calls take them."""

from wm.core.registry import make, names, spec
from wm.options.calls import Scoring
from wm.options.reconstruction import Reconstruction
from wm.options.sampling import Sampling
from wm.options.training import Training
