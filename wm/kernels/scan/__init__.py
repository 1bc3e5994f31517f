"""Recurrences over time.

affine_scan   y_t = a_t y_(t-1) + b_t of vectors, diagonal or block maps
state_space   matrix states with a scalar decay a head (SSD), and the selective
              scan: a diagonal recurrence with step sizes (S6)
delta_rule    matrix states corrected by the gated delta rule
forms         a recurrence chunk by chunk in little memory

Where a recurrence has two forms, sequential and a tree, the platform decides
between them.
"""
