"""What `wm.NAME` gives, for type checkers; `__init__.py` finds it lazily."""

from wm.core.registry import names as names
from wm.core.registry import spec as spec
from wm.core.trust import trust as trust
from wm.data.published import fetch_map as fetch_map
from wm.data.published import from_graph as from_graph
from wm.evaluation.scoring import Loaded as Loaded
from wm.library.calls import ingest as ingest
from wm.library.calls import ingest_text as ingest_text
from wm.library.calls import power as power
from wm.library.calls import reconstruct as reconstruct
from wm.library.calls import sample as sample
from wm.library.calls import score as score
from wm.library.calls import train as train
from wm.library.coverage import Coverage as Coverage
from wm.library.coverage import coverage as coverage
from wm.library.exact import boundary as boundary
from wm.library.exact import classes as classes
from wm.library.exact import count as count
from wm.library.exact import model_boundary as model_boundary
from wm.library.exact import recovery as recovery
from wm.library.explore import ExplorerPage as ExplorerPage
from wm.library.explore import explore as explore
from wm.library.film import film as film
from wm.library.loading import Run as Run
from wm.library.loading import load_predictor as load_predictor
from wm.library.loading import make as make
from wm.library.report import RunComparison as RunComparison
from wm.library.report import compare as compare
from wm.library.report import findings as findings
from wm.library.report import recorded as recorded
from wm.library.report import report as report
from wm.library.report import rows as rows
from wm.library.report import runs as runs
from wm.library.report import wrong_keys as wrong_keys
from wm.options.calls import Scoring as Scoring
from wm.options.reconstruction import Reconstruction as Reconstruction
from wm.options.sampling import Sampling as Sampling
from wm.options.training import Training as Training
from wm.studies.atlas import atlas as atlas
from wm.studies.miniature import miniature as miniature
from wm.studies.rows import Row as Row
from wm.studies.study import study as study
from wm.studies.sweep import sweep as sweep
from wm.training.import_checkpoint import import_gpt2 as import_gpt2

__version__: str
