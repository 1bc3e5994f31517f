"""Recurrences over time, each in several forms that agree.

affine_scan   y_t = a_t y_(t-1) + b_t of vectors, diagonal or block maps
selective     the selective scan: a diagonal recurrence with step sizes
state_space   matrix states with a scalar decay a head (SSD)
delta_rule    matrix states corrected by the gated delta rule
forms         which form 'auto' is
chunks        runs a recurrence chunk by chunk in little memory

All take `form`: 'sequential', 'associative', 'chunked', or 'auto', the fastest
in training that was measured for the backend.
"""

from wm.kernels.scan.affine_scan import affine, affine_step, resolve
from wm.kernels.scan.forms import FORMS
