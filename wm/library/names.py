"""Options and specs, as calls take them."""

from wm.core.registry import made as make
from wm.core.registry import names, spec
from wm.core.trust import trust
from wm.options.calls import Scoring
from wm.options.reconstruction import Reconstruction
from wm.options.sampling import Sampling
from wm.options.training import Training
