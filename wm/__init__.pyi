"""What `wm.NAME` gives, for type checkers; `__init__.py` finds it lazily."""

from wm.library.atlas import atlas as atlas
from wm.library.calls import ingest as ingest
from wm.library.calls import reconstruct as reconstruct
from wm.library.calls import sample as sample
from wm.library.calls import score as score
from wm.library.calls import train as train
from wm.library.covered import Coverage as Coverage
from wm.library.covered import coverage as coverage
from wm.library.exact import boundary as boundary
from wm.library.exact import classes as classes
from wm.library.exact import count as count
from wm.library.exact import model_boundary as model_boundary
from wm.library.exact import recovery as recovery
from wm.library.film import film as film
from wm.library.loading import Loaded as Loaded
from wm.library.loading import Run as Run
from wm.library.loading import load_predictor as load_predictor
from wm.library.miniature import miniature as miniature
from wm.library.names import Reconstruction as Reconstruction
from wm.library.names import Sampling as Sampling
from wm.library.names import Scoring as Scoring
from wm.library.names import Training as Training
from wm.library.names import make as make
from wm.library.names import names as names
from wm.library.names import spec as spec
from wm.library.names import trust as trust
from wm.library.outside import fetch_map as fetch_map
from wm.library.outside import from_graph as from_graph
from wm.library.outside import import_gpt2 as import_gpt2
from wm.library.outside import ingest_text as ingest_text
from wm.library.power import power as power
from wm.library.recorded import recorded as recorded
from wm.library.recorded import wrong_keys as wrong_keys
from wm.library.report import findings as findings
from wm.library.report import report as report
from wm.library.rows import Row as Row
from wm.library.study import study as study
from wm.library.sweep import sweep as sweep

__version__: str
