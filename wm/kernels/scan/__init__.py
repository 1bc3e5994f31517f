"""Recurrences over time, each in several forms that agree.

affine_scan   y_t = a_t y_(t-1) + b_t of vectors, diagonal or block maps
state_space   matrix states with a scalar decay a head (SSD), and the selective
              scan: a diagonal recurrence with step sizes (S6)
delta_rule    matrix states corrected by the gated delta rule
forms         which form 'auto' is; a recurrence chunk by chunk in little memory

All take `form`: 'sequential', 'associative', 'chunked', or 'auto', the fastest
in training that was measured for the backend.
"""
