"""Recurrences over time, each in several forms that agree.

The front door of `scan_affine` (diagonal and block maps of vectors), `scan_ssd`
(matrix states with a scalar decay) and `scan_delta` (matrix states corrected
by the delta rule). All take `form`: 'sequential', 'associative', 'chunked', or
'auto', the fastest in training that was measured for the backend.
"""

from wm.kernels.scan.affine_scan import FORMS, affine, affine_step, resolve
from wm.kernels.scan.delta_rule import delta, delta_step
from wm.kernels.scan.state_space import ssd
from wm.kernels.scan.state_space import step as ssd_step

__all__ = [
  'FORMS',
  'affine',
  'affine_step',
  'delta',
  'delta_step',
  'resolve',
  'ssd',
  'ssd_step',
]
