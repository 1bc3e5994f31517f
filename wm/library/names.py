"""Options and specs, as calls take them."""

from wm.core.registry import make, names, spec
from wm.data.sampling import Sampling
from wm.recon.options import Reconstruction
from wm.training.config import Training

__all__ = ['Reconstruction', 'Sampling', 'Training', 'make', 'names', 'spec']
