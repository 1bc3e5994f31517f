"""Metric, Scores and Model: the base classes of metrics and models."""

from __future__ import annotations

import abc
import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from wm.core.basics import (
  InputError,
  Need,
  can,
  optional,
  owner,
  plug_in_name,
  section,
)
from wm.core.predictor import Predictor, TokenReader
from wm.core.resources import Bounded, Cost
from wm.core.world import Sequences, World

if TYPE_CHECKING:
  import pathlib

  import pandas as pd
  from flax import nnx
  from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class Scores:
  """One quantity of one metric, a row per trial, without derived numbers.

  Attributes:
    quantity: name of `value`, e.g. 'precision'.
    value: [T] float64; NaN if the trial was not measured.
    reason: [T] str, '' if the trial was measured, else the reason why not.
    group: [T] int64 cluster; trials of one cluster are dependent.
    weight: [T] float64; the score is sum(weight * value) / sum(weight).
    columns: name -> side column [T]. A column 'stratum' says that clusters were
      drawn from each stratum in proportion to the stratum's size.
    counts: cause -> number of events that have no row, such as resamples.
    bounds: least and greatest possible value; -inf and inf (or None) stand for
      a missing bound, and None for two missing ones.
    outliers: single trials may lie far from all others, e.g. exponents of a
      fit. Summaries then have a median, and no interval of the mean if trials
      are few.
  """

  quantity: str
  value: np.ndarray
  reason: np.ndarray
  group: np.ndarray
  weight: np.ndarray
  columns: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
  counts: dict[str, int] = dataclasses.field(default_factory=dict)
  bounds: tuple[float, float | None] | None = (0.0, 1.0)
  outliers: bool = False

  @property
  def measured(self) -> np.ndarray:
    """[T] bool: the trial was measured."""
    return self.reason == ''

  def measured_columns(self) -> dict[str, np.ndarray]:
    """Side columns of the rows that were measured."""
    return {key: column[self.measured] for key, column in self.columns.items()}

  @property
  def limits(self) -> tuple[float, float]:
    """The bounds as numbers; -inf or inf for a missing bound."""
    least, most = self.bounds or (None, None)
    return (
      -math.inf if least is None else least,
      math.inf if most is None else most,
    )


def scores(
  quantity: str,
  value: Sequence[float] | np.ndarray,
  *,
  reason: Sequence[str] | np.ndarray | None = None,
  group: np.ndarray | None = None,
  weight: np.ndarray | None = None,
  columns: dict[str, np.ndarray] | None = None,
  counts: dict[str, int] | None = None,
  bounds: tuple[float, float | None] | None = (0.0, 1.0),
) -> Scores:
  """Scores with defaults filled in: all measured, every row its own group."""
  value = np.asarray(value, np.float64)
  num = len(value)
  reason = np.full(num, '') if reason is None else np.asarray(reason, str)
  return Scores(
    quantity=quantity,
    value=np.where(reason == '', value, np.nan),
    reason=reason,
    group=np.arange(num) if group is None else np.asarray(group, np.int64),
    weight=np.ones(num) if weight is None else np.asarray(weight, np.float64),
    columns=dict(columns or {}),
    counts=dict(counts or {}),
    bounds=bounds,
  )


class Measure(NamedTuple):
  """How reports present a quantity of a metric.

  Attributes:
    best: the best value, with which reports compare values; None if there is
      no best value.
    good: behaviour of a model with the best value, in about five words: 'tells
      all states apart'.
    headline: whether the quantity is in the main table and its worst trials
      are listed; None: if it has a best value.
    less_is_better: whether lower values are better, as for losses. Always so
      if the best value is 0.
    side: the aspect of a world model that the quantity shows, a key of
      `wm.reporting.sentences.SIDES`. A report answers yes only if every aspect
      that applies to the world holds.
    needs: ability that a world must have for this aspect to apply, in addition
      to the metric's `needs`.
    likely: the quantity depends on how likely tokens are. Reports do not judge
      the oracle by it, which knows only legality.
    picture: words for the continuation in the side column `suffix`; default:
      none. The explorer shows a trial by its side columns: `prefix` and
      `other_prefix` (tokens joined by blanks), `state` and `other_state`
      (written by the world), `suffix`
      and `wrong_at`. The last is the position in the suffix, from 1, of the
      token at which model and world disagree; 0 if that is unknown.
    sized: a report plots the quantity against the number of parameters if
      models of several sizes were measured.
    panel: the quantity's curve, by acceptance rule or another number, is a
      panel of one figure.
    correlated: a report correlates the quantity, over models, with the headline
      and derived quantities of all other metrics.
    derived: function that computes the quantity from the values of the metric's
      other quantities.
  """

  best: float | None = None
  good: str = ''
  headline: bool | None = None
  less_is_better: bool = False
  side: str = ''
  needs: Need | None = None
  likely: bool = False
  picture: str = ''
  sized: bool = False
  panel: bool = False
  correlated: bool = False
  derived: Callable[[Mapping[str, float]], float] | None = None

  @property
  def is_headline(self) -> bool:
    """Is the quantity in the main table?"""
    return self.best is not None if self.headline is None else self.headline

  @property
  def direction(self) -> int:
    """1 if higher is better, -1 if lower is better, 0 if undeclared."""
    if self.less_is_better or self.best == 0:
      return -1
    return int(self.is_headline)


# Declarations that `Metric.measures` has replaced.
_BEFORE = {'headline', 'ideal', 'shows', 'pictures', 'less_is_better'}


def headline_quantities(metric: Metric | type[Metric]) -> tuple[str, ...]:
  """Names of a metric's quantities that are in the main table."""
  return tuple(k for k, x in metric.measures.items() if x.is_headline)


class Caution(NamedTuple):
  """A rule by which a report warns of a model's value of a quantity.

  The report warns if the whole interval of the value is beyond the limit. Each
  seed is judged alone, and the report says for how many seeds the rule holds.

  Attributes:
    quantity: name of the quantity.
    text: the warning, which follows the model's name. {value}, {rest} (1 -
      value), {best} and the names of the metric's other quantities are replaced
      by values.
    below, above: the limits; None if there is no limit.
    of_best: the limit is a share of the Bayes predictor's value. There is no
      warning if that value was not measured.
    unmeasured: a reason, used instead of a limit: warn if no trial was measured
      for this reason. Reasons that begin with no_ may occur too, as they are
      due to the world or the data; no_answer may not, as it is due to the
      model.
  """

  quantity: str
  text: str
  below: float | None = None
  above: float | None = None
  of_best: bool = False
  unmeasured: str = ''


class Metric(Bounded, abc.ABC):
  """A measurement; subclasses are frozen dataclasses of its parameters.

  A metric declares how tables, figures and pages present it. In these
  declarations NAME also stands for a series NAME_0.5, NAME_0.75, ...

  Attributes:
    version: version of the metric's results, raised by one when a change alters
      the rows of the same trials.
    needs: classes that the predictor and the world must inherit, such as
      `core.HiddenStates` and `core.Labelled`, and optional methods that they
      must define, such as `core.Labelled.edited`. A pair that lacks one gives
      a single row with the reason.
    measures: quantity -> how reports present it.
    glossary: quantity, or side column that breaks results down -> its meaning
      in two sentences; NAME also stands for NAME_of_it. Default: the entries
      below 'Glossary:' in the docstring.
    breakdown: side columns that break results down, besides the world's own.
    cautions: the rules by which a report warns, before its first table.
    sized_by: the field that counts trials, then other fields that count
      sequences held in memory; 'A B' is the product of two fields.
  """

  needs: ClassVar[tuple[Need, ...]] = (Predictor,)
  measures: ClassVar[Mapping[str, Measure]] = {}
  glossary: ClassVar[Mapping[str, str]] = {}
  breakdown: ClassVar[tuple[str, ...]] = ()
  cautions: ClassVar[tuple[Caution, ...]] = ()
  sized_by: ClassVar[tuple[str, ...]] = ()

  def __init_subclass__(cls, **keywords: Any) -> None:
    """Reads the glossary from the docstring."""
    super().__init_subclass__(**keywords)
    if old := sorted(_BEFORE & vars(cls).keys()):
      raise InputError(
        f'{plug_in_name(cls)}: {old[0]} is no declaration of a metric; '
        'expected measures = {quantity: core.Measure(...)}'
      )
    if 'glossary' not in vars(cls):
      cls.glossary = section(cls.__doc__, 'Glossary') or cls.glossary

  def cost(self, world: World | None = None) -> Cost:
    """See Bounded. Memory holds two sequences a trial, and those of `sized_by`.

    The memory is 0 without a world: a language model may be asked about fewer
    trials.
    """
    held = 0
    if world is not None:
      held = (
        self._sum(self.sized_by[:1])
        * 2
        * (world.max_len + world.init(1).shape[1])
      )
      held += self._sum(self.sized_by[1:]) * world.max_len
    names = ' '.join(self.sized_by).split()
    return Cost(4 * held, 0.0, tuple(dict.fromkeys(names)))

  def _sum(self, products: tuple[str, ...]) -> int:
    """Sum of the products of fields that `sized_by` entries name."""
    return sum(
      math.prod(getattr(self, name) for name in product.split())
      for product in products
    )

  def why_not_static(self) -> str:
    """Reason why the queries depend on earlier answers, or ''.

    Only metrics with '' can score a predictor with `core.QueryModel.ask`; see
    wm.core.queries. The text continues "its questions cannot be listed:".
    """
    return 'they depend on the answers'

  def companion(self) -> str:
    """Spec of a companion metric that is always reported with this one, or ''.

    A predictor with `core.QueryModel.ask` is always scored by both metrics.
    """
    return ''

  @staticmethod
  @optional
  def draw(rows: Mapping[str, pd.DataFrame], figure: Figure) -> bool:
    """Draws the metric's own figure for reports; its docstring is the caption.

    Args:
      rows: model name -> its rows, with the columns of rows.parquet.
      figure: empty figure to draw on.

    Returns:
      Whether anything was drawn.
    """
    raise NotImplementedError

  @abc.abstractmethod
  def __call__(
    self, predictor: Any, world: Any, seed: int
  ) -> tuple[Scores, ...]:
    """Runs the trials and returns one Scores for each quantity.

    predictor, world: instances of the classes in `needs`; a subclass annotates
      them with these classes.
    """


class Model(Bounded, abc.ABC):
  """A spec that becomes a predictor; subclasses are frozen dataclasses.

  A model without training is a `Model`; others are `Trainable` or `Fittable`.
  An existing model, such as a PyTorch or Flax module or a function from tokens
  to logits, needs no such class: `wm.score` takes it directly, and
  `help(wm.wrap)` lists the methods that it may have.

  The metrics inductive_bias, transfer, relearn, state_recovery, extrapolation
  and force_law have a model learn small tasks (Vafa et al. 2025: a foundation
  model is a rule that maps small data sets to predictors). Networks, and
  modules of PyTorch, Flax and Hugging Face, are fine-tuned with a new head.
  Functions, whose weights are unknown, and language models do not learn.
  N-grams, Bayes and other processes use a table of labels for their own states.
  """

  # Abilities that the world must have, e.g. core.Labelled.surface_labels.
  needs: ClassVar[tuple[Need, ...]] = ()
  # Classes of predictor that the model may become, the usual one first.
  gives: ClassVar[tuple[type[TokenReader], ...]] = (Predictor,)
  # Fields that only reword a prompt; reports show the range over their values.
  paraphrases: ClassVar[tuple[str, ...]] = ()

  def code(self) -> tuple[str, ...]:
    """Further modules that the model runs: 'package.name' or 'file.py'."""
    return ()

  def undeclared_inputs(self) -> str:
    """Reason why the model may read files that no field names, or ''."""
    return ''

  @abc.abstractmethod
  def predictor(self, world: World, seed: int) -> TokenReader:
    """The predictor before any training (random weights for networks)."""


class Trainable(Model):
  """A network's spec, trained by gradient steps.

  Attributes:
    undecayed: names of parameters without weight decay.
  """

  undecayed: ClassVar[tuple[str, ...]] = ()

  def check_world(self, world: World) -> None:
    """Raises InputError if the network cannot read a world's sequences."""

  @abc.abstractmethod
  def build(
    self, vocab_size: int, max_len: int, rngs: nnx.Rngs, outputs: int = 0
  ) -> nnx.Module:
    """Builds the network with fresh weights, for sequences of max_len tokens.

    outputs: number of logits at each position; 0 is next-token logits [V].
      Other outputs have their own head, even if embeddings are tied.
    """

  def for_inference(self, params: nnx.State) -> tuple[Trainable, nnx.State]:
    """The same function in its fastest form, e.g. with unstacked layers."""
    return self, params


class Fittable(Model):
  """A spec that is fitted in one pass over the data."""

  @abc.abstractmethod
  def fit(self, data: Iterable[Sequences], world: World) -> Predictor:
    """Fits a predictor, which depends on the spec and the data alone.

    data: the sequences, in chunks that fit in memory.
    """

  @abc.abstractmethod
  def size(self, predictor: Any) -> int:
    """Number of fitted parameters."""

  @abc.abstractmethod
  def save(self, predictor: Any, path: str | pathlib.Path) -> None:
    """Writes a file for `load`, atomically."""

  @abc.abstractmethod
  def load(self, path: str | pathlib.Path, world: World) -> Predictor:
    """Reads a file of `save`; raises InputError for any other file."""


def lacks(
  thing: Metric | type[Metric] | type[Model], *types: type
) -> list[Need]:
  """The needs of a metric or model that none of the given types satisfies.

  types: types of predictors and worlds. With worlds alone, needs of predictors
    are ignored, and the other way round.
  """
  kinds = tuple(
    kind
    for kind in (TokenReader, World)
    if any(issubclass(cls, kind) for cls in types)
  )
  return [
    need
    for need in thing.needs
    if issubclass(owner(need), kinds)
    and not any(can(cls, need) for cls in types)
  ]


def need_word(need: Need) -> str:
  """Name of an interface in reasons: HiddenStates becomes hidden_states."""
  # Matches the empty string before a capital that follows a small letter.
  return re.sub(r'(?<=[a-z])(?=[A-Z])', '_', need.__name__).lower()


def lacking_row(missing: Sequence[Need]) -> Scores:
  """Scores of a single row, whose reason is the first missing need."""
  reason = f'needs_{need_word(missing[0])}'
  return scores('all', [np.nan], reason=[reason])
