"""Exhaustive search for a formula of few quantities, up to a size.

grammar       what formulas are, how they are numbered, and their values
search        the front of size against error
search_numba  the compiled form
ref           the same in plain NumPy, without short cuts: the specification
"""

from wm.kernels.symbolic.grammar import count, values, written
from wm.kernels.symbolic.search import LARGEST, LOSSES, Law, fitted, search
