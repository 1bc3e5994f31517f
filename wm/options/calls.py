"""Options that calls of the library take as keywords.

A call's own defaults are these (`seed: int = Scoring.seed`), so that each is
declared once; a test compares calls, classes and flags.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import MISSING
from typing import TYPE_CHECKING, Annotated, Any

from wm.options import Option, check, documented, option, refuse, shown
from wm.options.reconstruction import Reconstruction
from wm.options.training import Path, Training

if TYPE_CHECKING:
  from wm import core
  from wm.core.accept import Accept

Count = Annotated[int, Option('How many.', least=1)]
Amount = Annotated[int, Option('How many.', least=0)]


@documented
@dataclasses.dataclass(frozen=True)
class Sampling:
  """What is sampled from a world."""

  num: int = option(100_000, 'Training sequences.', least=1)
  # No split key is in both splits.
  num_heldout: int = option(1000, 'Held-out sequences.', least=1)
  seed: int = option(0, 'Seed of all randomness.', least=0, most=2**32 - 1)
  # OUT/data/train_sequences.txt, heldout_sequences.txt
  text: bool = option(False, 'Also write the published text format.')

  def __post_init__(self) -> None:
    check(self)


@documented
@dataclasses.dataclass(frozen=True, kw_only=True)
class Loading:
  """Which predictor of a run or model: keywords of `wm.load_predictor`."""

  checkpoint: str = option(
    'best',
    "'best' or 'last' checkpoint of the training run; 'none': untrained "
    'weights. As a flag also the folder of a run.',
  )
  # Of untrained weights, and of all that is drawn for them.
  seed: int = option(0, 'Seed of all randomness.', least=0, most=2**32 - 1)
  model: str | None = option(
    None, 'Spec of the model that a training run must be of; default: any.'
  )
  name: str | None = option(
    None, "Name of the predictor in tables; default: the model's own."
  )
  # See `wm.models.nn.network.placements`.
  shards: int = option(
    0,
    'Devices that share one copy of the weights of a network; 0: as few as '
    'hold it. Results of different numbers agree to rounding.',
    least=0,
  )


def check_address(address: str) -> None:
  """Raises InputError for a cluster that others on the network could join.

  Dask sends functions as pickles: whoever can connect can run code.
  """
  try:
    parts = urllib.parse.urlsplit(address)
    host, port = parts.hostname or '', parts.port
  except ValueError:  # Of a port, or of an address in brackets.
    host, port = '', None
  if not host or port is None or parts.scheme not in ('tcp', 'tls'):
    refuse(
      f'cluster={shown(address)}',
      ': expected tcp://127.0.0.1:PORT or tls://HOST:PORT',
    )
  if parts.scheme == 'tcp' and not _is_loopback(host):
    refuse(
      f'cluster={shown(address)}',
      ': whoever can connect to Dask can run code; expected '
      f'tls://{host}:{port} with certificates (distributed.comm.tls of '
      "Dask's configuration), or tcp:// on a loopback address",
    )


def _is_loopback(host: str) -> bool:
  """Is it this machine alone? Names are not looked up."""
  try:
    return host == 'localhost' or ipaddress.ip_address(host).is_loopback
  except ValueError:
    return False


@documented
@dataclasses.dataclass(frozen=True, kw_only=True)
class Workers:
  """Where independent tasks run; the results are the same to the bit."""

  jobs: int = option(
    1,
    'Runs, or parts of the work, at a time: processes of this machine.',
    least=1,
    most=1000,
  )
  # See `wm.runtime.tasks`.
  cluster: str | None = option(
    None,
    'Address of a Dask scheduler whose workers do the work instead: '
    "tcp://127.0.0.1:PORT, or tls://HOST:PORT with certificates by Dask's "
    'configuration (distributed.comm.tls); see launch/cluster/README.md.',
  )

  def __post_init__(self) -> None:
    if isinstance(self.cluster, str):  # Another type is refused by its call.
      check_address(self.cluster)

  @property
  def several(self) -> bool:
    """Is the work for other processes than this one?"""
    return self.jobs > 1 or self.cluster is not None


HERE = Workers()


@documented
@dataclasses.dataclass(frozen=True, kw_only=True)
class Jobs(Workers):
  """How runs are made."""

  dry_run: bool = option(
    False, 'List what would be run or asked, and do nothing.'
  )


@documented
@dataclasses.dataclass(frozen=True, kw_only=True)
class Crossing(Jobs):
  """Which seeds and settings of rows are trained: keywords of `wm.study`."""

  # A row's mean over seeds is a line of the report.
  seeds: Sequence[int] = option(
    (), 'Seeds that each trained row is made by; default: that of the study.'
  )
  # As the grid of `wm.sweep`: name -> values, or label -> value.
  axes: Mapping[str, Mapping[str, Any] | Sequence[Any]] | None = option(
    None,
    'Settings of Sampling and Training that vary over trained rows, each with '
    'each.',
  )


@documented
@dataclasses.dataclass(frozen=True)
class Scoring(Loading):
  """How models are scored: keywords of `wm.score`, and what sweeps take."""

  # Objects or specs.
  metrics: core.Metric | str | Sequence[core.Metric | str] = option(
    MISSING,
    'Metric; repeat for more than one.',
    flag='metric',
    many=True,
  )
  world: core.World | str | None = option(
    None,
    'World to score in, of the same vocabulary; default: --world, or what a '
    'sweep trained a run on.',
    flag='score_world',
  )
  # For all metrics that have one; None leaves theirs.
  accept: Accept | str | None = option(
    None, "Acceptance rule, e.g. 'epsilon(0.01)'."
  )
  # None leaves each metric's own.
  loop: str | None = option(
    None,
    'Where metrics that sample run their loop over tokens: the host, the '
    'device in one program, or the faster of both; default: as --metric says.',
    choices=('auto', 'host', 'device'),
  )
  # Such as the filters of Vafa et al. 2024: the paper's of prefixes, and the
  # published program's of samples, "sampler='published(0.01)'".
  metric_overrides: str | None = option(
    None,
    'Fields to set in all metrics that have them, e.g. '
    '"prefix_filter=\'model\'"; default: as --metric says.',
  )
  max_calls: int = option(
    0,
    'Most calls of a language model that a metric may make; one that needs '
    'more runs fewer trials. 0: one that needs more than 1,000 is refused.',
    least=0,
  )


@documented
@dataclasses.dataclass(frozen=True, kw_only=True)
class Asking:
  """What a language model may cost: keywords of `wm.ask`."""

  budget: str = option(
    '', "Most that all calls may cost: '5usd' or '200000tok'."
  )
  width: float = option(
    0.0,
    'Stop at 95 % intervals of this width, whose level is raised for stopping; '
    '0 uses the whole budget.',
    least=0,
    most=1,
  )
  prices: Path | None = option(
    None,
    'JSON file of prices in dollars per million tokens: '
    '{"openai/gpt-5": {"input": 1.25, "output": 10}}.',
  )
  dry_run: bool = option(
    False, 'List what would be run or asked, and do nothing.'
  )

  def __post_init__(self) -> None:
    check(self)


@documented
@dataclasses.dataclass(frozen=True)
class Planning:
  """What is planned from a pilot by `wm.power`."""

  difference: float = option(
    0.0,
    'Difference of two models: print how many trials and seeds detect it, as '
    'estimated from these scores; 0 prints nothing.',
    flag='power',
    least=0,
  )


@documented
@dataclasses.dataclass(frozen=True)
class Topology:
  """What a run is compiled for by `wm.plan`."""

  topology: str = option(
    'v5e:4x4',
    "Chips: 'v5e:16x16' or another shape of TPUs, 'h100:8' by arithmetic, or "
    "'cpu:8' of this machine.",
  )
  length: int = option(
    0, "Tokens of a sequence; 0 is the world's longest.", least=0
  )
  train_only: bool = option(
    False, 'Compile training alone, not scoring and sampling.'
  )


@documented
@dataclasses.dataclass(frozen=True)
class Sweeping(Jobs):
  """How the runs of a grid are done: keywords of `wm.sweep`."""

  per: Sequence[str] = option(
    (),
    'Axis of the grid, each value of which has its best run; repeat.',
    many=True,
  )
  devices: Sequence[str] = option(
    (),
    'CUDA_VISIBLE_DEVICES of the jobs, in turn; repeat.',
    flag='device',
    many=True,
  )
  keep: int = option(
    0, 'Best runs that keep their checkpoints; 0 is all.', least=0
  )
  # Their places in its grid, and this grid.
  winners_of: Path | None = option(None, 'Start from the best of this sweep.')
  top: int = option(1, 'How many of the best.', least=1)
  # Reported with those of the sweep, where it scores.
  beside: Sequence[Path] = option(
    (),
    'Folders whose results to report, or folders of such; default: --out.',
    flag='runs',
    many=True,
  )


@documented
@dataclasses.dataclass(frozen=True)
class RouteSource:
  """Where a map's routes are from: keywords of `wm.reconstruct`."""

  samples: Path | None = option(
    None,
    'File of sequences in the text format; default: sampled from the model.',
  )
  num: int = option(
    6400, 'Sequences sampled from the model.', flag='num_samples', least=1
  )
  # Of the world's own sequences ('train', 'heldout': the splits that `sample`
  # makes), or of all pairs with a path (Vafa et al. 2024, figures 12 and 13).
  pairs: str = option(
    'uniform',
    'Origins and destinations of routes sampled from the model: uniform over '
    "pairs with a path, or as a split of --world's sequences has them.",
    choices=('uniform', 'heldout', 'train'),
  )


@documented
@dataclasses.dataclass(frozen=True)
class Extraction:
  """How the automaton of a model's accepted tokens is learned."""

  depth: int = option(
    0,
    'Longest word, in tokens; 0 is the longest sequence that world and model '
    'have. What is accepted after so many tokens is not asked.',
    flag='longest_word',
    least=0,
  )
  most: int = option(
    200, 'Most states of the automaton.', flag='most_states', least=1
  )
  queries: int = option(
    10_000, 'Most words that the model reads.', least=100, most=10_000_000
  )
  walks: int = option(
    500,
    'Random walks of the world, and of the model, that test a hypothesis.',
    least=1,
    most=100_000,
  )
  tails: int = option(
    0,
    'Merge words after which the same words of up to so many tokens are '
    'accepted, instead of learning which suffixes tell them apart; 0 learns.',
    least=0,
    most=100,
  )

  def __post_init__(self) -> None:
    check(self)


@documented
@dataclasses.dataclass(frozen=True)
class Units(Jobs):
  """Which units of a miniature are made: keywords of `wm.miniature`."""

  # Its name is the miniature's.
  results: Path | None = option(
    None, 'Folder of result files, one a row and seed; default: OUT/results.'
  )
  seeds: int = option(
    3,
    'Number of seeds of each row, from --first_seed on; a row may set its own.',
    least=1,
    most=1000,
  )
  first_seed: int = option(
    0,
    'First seed. A rule that was fixed on some seeds is tested on others.',
    least=0,
    most=2**30,
  )
  row_names: Sequence[str] = option(
    (),
    'Name of a row of the miniature to do; repeat. Default: all rows.',
    flag='rows',
    many=True,
  )
  overwrite: bool = option(
    False,
    'Remove results and runs of these units first, and do all; each keeps the '
    'rules under which its first data were made.',
  )
  allow_dirty: bool = option(
    False,
    'Start although files are changed and not committed; no finding is judged '
    'by these results.',
  )


@documented
@dataclasses.dataclass(frozen=True)
class Stages:
  """What is done with the rows of a study: options of each of its stages."""

  sampling: Sampling = dataclasses.field(default_factory=Sampling)
  training: Training = dataclasses.field(default_factory=Training)
  reconstruction: Reconstruction = dataclasses.field(
    default_factory=Reconstruction
  )
  num_samples: int = RouteSource.num  # Routes sampled for a map.
  # See `wm.studies.baselines`; those that rows name are not made twice.
  baselines: bool = option(
    True,
    'Score untrained models, a uniform guesser, the oracle and the Bayes '
    'predictors of the samplers beside the rows.',
  )

  @classmethod
  def of(cls, order: Mapping[str, Any]) -> Stages:
    """The options that `dataclasses.asdict` has written."""
    parts = {
      'sampling': Sampling(**order['sampling']),
      'training': Training(**order['training']),
      'reconstruction': Reconstruction(**order['reconstruction']),
    }
    return cls(**{**order, **parts})

  def seeded(self, seed: int) -> Stages:
    """All stages with this seed."""
    return self.replaced({'seed': seed})

  def replaced(self, settings: Mapping[str, Any]) -> Stages:
    """Stages with other values of their fields; names of no field are left."""
    parts = {}
    for stage in ('sampling', 'training', 'reconstruction'):
      options = getattr(self, stage)
      fields = {field.name for field in dataclasses.fields(options)}
      changed = {k: x for k, x in settings.items() if k in fields}
      parts[stage] = dataclasses.replace(options, **changed)
    return dataclasses.replace(self, **parts)


@documented
@dataclasses.dataclass(frozen=True)
class Matching:
  """How a row of a study is matched to another: settings of the row."""

  # Each decides num or steps, see `wm.studies.rows`.
  match: str = option(
    '',
    'What the row has as much of as another: sequences (distinct ones) or '
    'tokens of training data, and steps or compute (FLOPs) of training; two '
    "are joined by '+', as in 'sequences+steps'.",
  )
  to: str = option(
    '',
    'Row that it is matched to; default: the first other trained row without a '
    'match.',
  )
