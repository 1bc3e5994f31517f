"""What `wm.NAME` gives, for type checkers; `__init__.py` finds it lazily."""

from wm.core import InputError as InputError
from wm.core import Model as Model
from wm.core.plugins import trust as trust
from wm.core.registry import names as names
from wm.core.registry import spec as spec
from wm.data.published import fetch_map as fetch_map
from wm.data.published import from_graph as from_graph
from wm.evaluation.scoring import Loaded as Loaded
from wm.lab.cross_page import findings as findings
from wm.lab.miniature import miniature as miniature
from wm.library.calls import ask as ask
from wm.library.calls import ingest as ingest
from wm.library.calls import ingest_text as ingest_text
from wm.library.calls import reconstruct as reconstruct
from wm.library.calls import sample as sample
from wm.library.calls import score as score
from wm.library.calls import train as train
from wm.library.course import course as course
from wm.library.exact import boundary as boundary
from wm.library.exact import count as count
from wm.library.exact import extract as extract
from wm.library.explore import ExplorerPage as ExplorerPage
from wm.library.explore import explore as explore
from wm.library.loading import Checked as Checked
from wm.library.loading import Run as Run
from wm.library.loading import check as check
from wm.library.loading import load_predictor as load_predictor
from wm.library.loading import make as make
from wm.library.loading import wrap as wrap
from wm.library.plan import PodPlan as PodPlan
from wm.library.plan import plan as plan
from wm.library.report import compare as compare
from wm.library.report import recorded as recorded
from wm.library.report import report as report
from wm.library.report import rows as rows
from wm.models.serving.layout import InputLayout as InputLayout
from wm.options.calls import Reconstruction as Reconstruction
from wm.options.calls import Sampling as Sampling
from wm.options.calls import Scoring as Scoring
from wm.options.training import Training as Training
from wm.reporting.catalog import describe as describe
from wm.studies.rows import Row as Row
from wm.studies.study import study as study
from wm.studies.sweep import sweep as sweep

__version__: str
