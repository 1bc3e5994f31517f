"""Options that library calls take as keywords.

Calls take their defaults from these classes (`seed: int = Scoring.seed`), so
that each is declared once; a test compares calls, classes and flags.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import MISSING
from typing import TYPE_CHECKING, Annotated, Any

from wm.options import Option, check, documented, option, refuse
from wm.options.training import Path, Training

if TYPE_CHECKING:
  from wm import core
  from wm.core.accept import Accept

Count = Annotated[int, Option('How many.', least=1)]
Amount = Annotated[int, Option('How many.', least=0)]
Share = Annotated[float, Option('A share.', least=0, most=1)]


@documented
@dataclasses.dataclass(frozen=True)
class Sampling:
  """Options for sampling a world."""

  num: int = option(100_000, 'Training sequences.', least=1)
  # The two splits share no split key.
  num_heldout: int = option(1000, 'Held-out sequences.', least=1)
  seed: int = option(0, 'Seed of all randomness.', least=0, most=2**32 - 1)

  def __post_init__(self) -> None:
    check(self)


@documented
@dataclasses.dataclass(frozen=True)
class Reconstruction:
  """Options for reconstructing a map from routes."""

  # Limit of added edges: the paper counts distinct neighbours, the program all.
  max_degree: int = option(4, 'Most edges out of a node.', least=1, most=1000)
  # Great-circle distance.
  max_miles: float = option(0.5, 'Longest added edge.', least=0)
  # `tests/kernels/maps/reconstruction_ref.py` holds both in plain Python.
  variant: str = option(
    'program',
    'The published program, or the algorithm as printed.',
    choices=('program', 'paper'),
  )
  order: str = option('file', "Order of sequences: 'file' or a seed.")
  shuffles: int = option(
    0, 'Further random orders, for the range of results.', least=0, most=10_000
  )
  # See `controls.apply`; None is 'none', or 'uniform' with an error rate.
  control: str | None = option(
    None,
    'Control in place of the sequences: the valid ones alone, the valid ones '
    'corrupted at --error_rate, or with mistakes as frequent and as late as '
    'those of the sequences.',
    choices=('none', 'valid', 'uniform', 'matched'),
  )
  error_rate: float = option(
    0.0,
    'Probability of corrupting each valid sequence, in the control uniform.',
    least=0,
    most=1,
  )
  # Seeds shuffles, controls and sampled routes.
  seed: int = option(0, 'Seed of all randomness.', least=0, most=2**32 - 1)

  def __post_init__(self) -> None:
    check(self)
    if self.control is None:
      control = 'uniform' if self.error_rate else 'none'
      object.__setattr__(self, 'control', control)
    if self.order != 'file' and not str(self.order).isdecimal():
      refuse(f'order {self.order!r}', ": expected 'file' or a seed >= 0")
    if self.error_rate and self.control != 'uniform':
      refuse(
        f'error_rate={self.error_rate}',
        f' is for the control uniform, not {self.control!r}',
      )


@documented
@dataclasses.dataclass(frozen=True, kw_only=True)
class Loading:
  """Choice of a run's or model's predictor: keywords of `wm.load_predictor`."""

  checkpoint: str = option(
    'best',
    "'best' or 'last' checkpoint of the training run; 'none': untrained "
    'weights. The flag may also be the folder of a run.',
  )
  # Seeds untrained weights and the randomness of their evaluation.
  seed: int = option(0, 'Seed of all randomness.', least=0, most=2**32 - 1)
  model: str | None = option(
    None, 'Spec of the model that a training run must be of; default: any.'
  )
  name: str | None = option(
    None, "Name of the predictor in tables; default: the model's own."
  )


@documented
@dataclasses.dataclass(frozen=True, kw_only=True)
class Workers:
  """Where independent tasks run; the results are the same to the bit."""

  jobs: int = option(
    1,
    'Number of processes on this machine that run at a time.',
    least=1,
    most=1000,
  )


@documented
@dataclasses.dataclass(frozen=True, kw_only=True)
class Jobs(Workers):
  """How a set of runs is executed."""

  dry_run: bool = option(False, 'List the runs or questions, and start none.')


@documented
@dataclasses.dataclass(frozen=True, kw_only=True)
class StudyJobs(Jobs):
  """How the rows of a study are executed, and what stands beside them."""

  # A metric that has this value too shows how much a model errs, not what it
  # has learned.
  nulls: bool = option(
    False,
    'Score beside each trained row two models without learning that err as '
    'much, at random: their errors depend on the whole prefix, and on the '
    'state.',
  )


@documented
@dataclasses.dataclass(frozen=True, kw_only=True)
class Crossing(StudyJobs):
  """Seeds and settings of trained rows: keywords of `wm.study`."""

  # A row's mean over seeds is a line of the report.
  seeds: Sequence[int] = option(
    (), "Seeds that each row is trained with; default: the study's seed."
  )
  # As the grid of `wm.sweep`: name -> values, or label -> value.
  axes: Mapping[str, Mapping[str, Any] | Sequence[Any]] | None = option(
    None,
    'Settings of Sampling and Training that vary over trained rows, in all '
    'combinations.',
  )


@documented
@dataclasses.dataclass(frozen=True)
class Scoring(Loading):
  """How models are scored: keywords of `wm.score`, and of sweeps."""

  # Objects or specs.
  metrics: core.Metric | str | Sequence[core.Metric | str] = option(
    MISSING, 'Metric; repeat for more than one.', flag='metric', many=True
  )
  world: core.World | str | None = option(
    None,
    'World to score in, with the same vocabulary; default: --world, or the '
    'world that a sweep trained a run on.',
    flag='score_world',
  )
  # Replaces the rule of all metrics that have one; None keeps theirs.
  accept: Accept | str | None = option(
    None, "Acceptance rule, e.g. 'epsilon(0.01)'."
  )
  # E.g. the filters of Vafa et al. 2024: the paper's for prefixes, and the
  # published program's for samples, "sampler='published(0.01)'".
  metric_overrides: str | None = option(
    None,
    'Fields to set in all metrics that have them, e.g. '
    '"prefix_filter=\'model\'"; default: as --metric says.',
  )
  max_calls: int = option(
    0,
    'Most calls of a language model for each metric; a metric that needs more '
    'runs fewer trials. 0: refuse a metric that needs more than 1,000.',
    least=0,
  )


@documented
@dataclasses.dataclass(frozen=True, kw_only=True)
class Asking:
  """Budget for a language model's answers: keywords of `wm.ask`."""

  budget: str = option('', "Maximum cost of all calls: '5usd' or '200000tok'.")
  prices: Path | None = option(
    None,
    'JSON file of prices in dollars per million tokens: '
    '{"openai/gpt-5": {"input": 1.25, "output": 10}}.',
  )
  dry_run: bool = option(False, 'List the runs or questions, and start none.')

  def __post_init__(self) -> None:
    check(self)


@documented
@dataclasses.dataclass(frozen=True)
class Topology:
  """Devices and sizes that `wm.plan` plans for."""

  topology: str = option(
    'v5e:4x4',
    "Chips: 'v5e:16x16' or another TPU topology; 'h100:8', estimated by "
    "arithmetic; or 'cpu:8' on this machine.",
  )
  length: int = option(
    0, "Tokens of a sequence; 0 is the world's longest.", least=0
  )


@documented
@dataclasses.dataclass(frozen=True)
class Sweeping(Jobs):
  """How the runs of a grid are executed: keywords of `wm.sweep`."""

  per: Sequence[str] = option(
    (),
    'Axis of the grid: the best run is chosen for each of its values; repeat.',
    many=True,
  )
  devices: Sequence[str] = option(
    (),
    'CUDA_VISIBLE_DEVICES for the jobs, used in turn; repeat.',
    flag='device',
    many=True,
  )
  keep_best: int = option(
    0, 'Number of best runs that keep their checkpoints; 0 is all.', least=0
  )
  # This grid is run for each of their settings.
  winners_of: Path | None = option(
    None, 'Start from the best runs of this sweep.'
  )
  top: int = option(1, 'Number of best runs to start from.', least=1)


@documented
@dataclasses.dataclass(frozen=True)
class RouteSource:
  """Source of a map's routes: keywords of `wm.reconstruct`."""

  samples: Path | None = option(
    None,
    'File of sequences in the text format; default: sample from the model.',
  )
  num: int = option(
    6400, 'Sequences sampled from the model.', flag='num_samples', least=1
  )
  # Pairs of the world's own sequences ('train', 'heldout': the splits of
  # `sample`), or all pairs with a path (Vafa et al. 2024, figures 12 and 13).
  pairs: str = option(
    'uniform',
    'Origins and destinations of routes sampled from the model: uniform over '
    "pairs with a path, or from a split of --world's sequences.",
    choices=('uniform', 'heldout', 'train'),
  )


@documented
@dataclasses.dataclass(frozen=True)
class Extraction:
  """How the automaton of a model's accepted tokens is learned."""

  depth: int = option(
    0,
    'Longest word, in tokens; 0 is the longest sequence of world and model. '
    'The next tokens after a word of this length are not asked for.',
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

  def __post_init__(self) -> None:
    check(self)


@documented
@dataclasses.dataclass(frozen=True)
class Units(Jobs):
  """Choice of a miniature's units: keywords of `wm.miniature`."""

  # The folder's name is the miniature's.
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
  allow_dirty: bool = option(
    False,
    'Start in spite of uncommitted changes; no finding is judged by these '
    'results.',
  )


@documented
@dataclasses.dataclass(frozen=True)
class Stages:
  """Options of the stages of each row of a study."""

  sampling: Sampling = dataclasses.field(default_factory=Sampling)
  training: Training = dataclasses.field(default_factory=Training)
  reconstruction: Reconstruction = dataclasses.field(
    default_factory=Reconstruction
  )
  num_samples: int = RouteSource.num  # Routes sampled for a map.
  # See `wm.studies.baselines`; a baseline that is a row is not made twice.
  baselines: bool = option(
    True,
    'Score untrained models, a uniform guesser, the oracle and the Bayes '
    'predictors of the samplers beside the rows.',
  )

  @classmethod
  def of(cls, order: Mapping[str, Any]) -> Stages:
    """Restores the options from the result of `dataclasses.asdict`."""
    parts = {
      'sampling': Sampling(**order['sampling']),
      'training': Training(**order['training']),
      'reconstruction': Reconstruction(**order['reconstruction']),
    }
    return cls(**{**order, **parts})

  def replaced(self, settings: Mapping[str, Any]) -> Stages:
    """Stages with new values of their fields; unknown names are ignored."""
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
  """How a row of a study is matched to another: a setting of the row."""

  # Decides num, steps or both; see `wm.studies.rows`.
  match: str = option(
    '',
    'Amounts that equal those of the first trained row without a match: '
    'distinct training sequences, steps of training, or both.',
    choices=('', 'sequences', 'steps', 'sequences+steps'),
  )
