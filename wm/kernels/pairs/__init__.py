"""How often answers differ on the pairs of points, without listing the pairs.

counts       disagreements by kind of pair, in time linear in the points
counts_numba what counts, compiled; `ref` lists all pairs: the specification
"""

from wm.kernels.pairs.counts import Counts, count
