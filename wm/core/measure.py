"""Metric, Scores and Model: what is run, and what it gives."""

from __future__ import annotations

import abc
import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from wm.core.basics import Need, can, optional, owner, plug_in_name, section
from wm.core.predictor import Predictor, TokenReader
from wm.core.resources import Bounded, Cost
from wm.core.world import Sequences, World

if TYPE_CHECKING:
  import pathlib

  import pandas as pd
  from flax import nnx
  from matplotlib.figure import Figure


STEP = 1e-3  # Seconds that a step of a metric takes, at least.


@dataclasses.dataclass(frozen=True)
class Scores:
  """One quantity of one metric, a row per trial; derived numbers are not kept.

  Attributes:
    quantity: what `value` is, e.g. 'precision'.
    value: [T] float64; NaN where not measured.
    reason: [T] str, '' where measured, else why not.
    group: [T] int64, trials that share it are dependent (clustered errors).
    weight: [T] float64, the score is sum(weight * value) / sum(weight).
    columns: named side columns [T]. If one is 'stratum', clusters were drawn
      from each of its values as often as it is among all there are.
    counts: events that are no row of their own (resamples by cause).
    bounds: least and greatest value possible, -inf and inf (or None) where
      there is none; None where nothing bounds it.
    outliers: single trials may lie far from all others, as exponents of a fit.
      Their summary has a median, and no interval of the mean of few.
    sequential: measuring stopped as soon as intervals were narrow enough.
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
  sequential: bool = False

  @property
  def measured(self) -> np.ndarray:
    """[T] bool."""
    return self.reason == ''

  @property
  def limits(self) -> tuple[float, float]:
    """The bounds as numbers; (-inf, inf) where nothing bounds it."""
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


def _multiplier(value: int | tuple) -> int:
  """The number that a field counts as; see Metric.repeats."""
  if not isinstance(value, tuple):
    return value
  whole = value and all(isinstance(number, int) for number in value)
  return value[-1] if whole else len(value)


class Caution(NamedTuple):
  """When a report warns of a model's value of a quantity.

  The whole interval of the value must be beyond the limit. Of several seeds
  each is judged by itself, and the report says of how many the rule holds.

  Attributes:
    quantity: that is judged.
    text: what follows the model's name; {value}, {rest} (1 - value), {best} and
      the names of the metric's other quantities stand for values.
    below, above: the limits; None is none.
    of_best: the limit is this share of the value of the Bayes predictor;
      nothing is said where that is not measured.
    unmeasured: instead of a limit: no trial was measured, all for this reason.
      Reasons that begin with no_ may stand beside it, as they say what the
      world or the data lack; no_answer may not, which is the model's.
  """

  quantity: str
  text: str
  below: float | None = None
  above: float | None = None
  of_best: bool = False
  unmeasured: str = ''


class Metric(Bounded, abc.ABC):
  """A measurement; subclasses are frozen dataclasses of its parameters.

  What tables, figures and pages say of a metric, the metric declares. In these
  declarations NAME also stands for a series NAME_0.5, NAME_0.75, ...

  Attributes:
    version: of the rows; counted up when the same trials give other rows.
    needs: classes that its predictor and its world must be of, such as
      `core.HiddenStates` and `core.Labelled`, and optional methods that they
      must have, such as `core.Labelled.edited`; a pair that lacks one gives a
      row with the reason.
    headline: quantities of the main table, and of the worst trials pictured; by
      default those of `ideal`.
    ideal: quantity -> its best value and what a model with it does, in about
      five words: '1: tells all states apart'. Values are judged by it.
    shows: quantity -> the side of a world model that it shows, a key of
      `wm.reporting.sentences.SIDES`. A report says yes where all sides hold
      that the world has.
    side_needs: side -> what a world that has it can do, besides `needs`.
    of_likelihood: quantities that ask what is likely. The oracle, which knows
      what is legal, is not judged by them.
    glossary: quantity, or side column that results are broken down by -> what
      it means, in two sentences; NAME also stands for NAME_of_it. Read from
      below 'Glossary:' in the docstring, where a metric declares none.
    pictures: quantity -> what the continuation in the side column `suffix` of
      its rows is, in words that follow "Continuation:". A report pictures a
      trial from the side columns `prefix` and `other_prefix` (tokens joined by
      blanks), `state` and `other_state` (written by the world), `suffix`, and
      `wrong_at`: the place in it, from 1, of the token at which model and world
      part, 0 where that is unknown. A quantity that is not declared here, but
      has such columns, is pictured with "what the model did".
    breakdown: side columns that results are broken down by, besides the
      world's own.
    scaling_quantities: quantities that a report draws against the number of
      parameters, where models of several sizes were measured.
    correlated_quantities: quantities that a report correlates, over models,
      with the headline and `derived` numbers of all other metrics.
    panels: quantities by rule or another number, the curves of which are the
      panels of one picture.
    cautions: what a report warns of, before its first table.
    less_is_better: quantities of which less is better, such as losses; of other
      headline quantities more is.
    derived: name -> function of the values of its quantities.
    sized_by: the field that counts its trials, then other fields that count
      sequences held in memory; 'A B' is the product of two fields.
    repeats: fields that multiply its run time, not its memory. A tuple of
      integers counts as its last and greatest, another tuple as its length.
  """

  # Counts up when it gives other results.
  version: ClassVar[str] = '1'
  needs: ClassVar[tuple[Need, ...]] = (Predictor,)
  headline: ClassVar[tuple[str, ...]] = ()
  ideal: ClassVar[Mapping[str, str]] = {}
  shows: ClassVar[Mapping[str, str]] = {}
  side_needs: ClassVar[Mapping[str, Need]] = {}
  of_likelihood: ClassVar[tuple[str, ...]] = ()
  glossary: ClassVar[Mapping[str, str]] = {}
  pictures: ClassVar[Mapping[str, str]] = {}
  breakdown: ClassVar[tuple[str, ...]] = ()
  scaling_quantities: ClassVar[tuple[str, ...]] = ()
  correlated_quantities: ClassVar[tuple[str, ...]] = ()
  panels: ClassVar[tuple[str, ...]] = ()
  cautions: ClassVar[tuple[Caution, ...]] = ()
  less_is_better: ClassVar[tuple[str, ...]] = ()
  derived: ClassVar[Mapping[str, Callable[[Mapping[str, float]], float]]] = {}
  sized_by: ClassVar[tuple[str, ...]] = ()
  repeats: ClassVar[tuple[str, ...]] = ()

  def __init_subclass__(cls, **keywords: Any) -> None:
    """Reads the glossary from the docstring; fills in headlines."""
    super().__init_subclass__(**keywords)
    if 'ideal' in vars(cls) and 'headline' not in vars(cls):
      cls.headline = tuple(cls.ideal)
    if 'glossary' not in vars(cls):
      cls.glossary = section(cls.__doc__, 'Glossary') or cls.glossary

  @property
  def name(self) -> str:
    """Registry name, see `plug_in_name`."""
    return plug_in_name(type(self))

  @property
  def trials_per_draw(self) -> int:
    """Trials of one draw: the number of all is a multiple of it."""
    return 1

  def cost(self, world: World | None = None) -> Cost:
    """See Bounded; two sequences a trial, all that is held, STEP a repeat.

    Without a world nothing is said of memory: of what a language model is asked
    fewer trials may be run.
    """
    held = 0
    if world is not None:
      held = (
        self._sum(self.sized_by[:1])
        * 2
        * (world.max_len + world.init(1).shape[1])
      )
      held += self._sum(self.sized_by[1:]) * world.max_len
    names = ' '.join((*self.sized_by, *self.repeats)).split()
    seconds = STEP * self._sum(self.repeats)
    return Cost(4 * held, seconds, tuple(dict.fromkeys(names)))

  def _sum(self, products: tuple[str, ...]) -> int:
    """Of products of fields, as `sized_by` has them."""
    return sum(
      math.prod(_multiplier(getattr(self, name)) for name in product.split())
      for product in products
    )

  def why_not_static(self) -> str:
    """Reason why the queries depend on earlier answers, or ''.

    A predictor that can `core.QueryModel.ask` is scored by metrics that can,
    see wm.core.queries. The text continues "its questions cannot be listed:".
    """
    return 'they depend on the answers'

  def passes(self) -> int:
    """How often it goes over trials, by which progress tells what is left."""
    return 1

  def companion(self) -> str:
    """Spec of a companion metric that is always reported with this one, or ''.

    A predictor that can `core.QueryModel.ask` is always scored by it too.
    """
    return ''

  @staticmethod
  @optional
  def draw(rows: Mapping[str, pd.DataFrame], figure: Figure) -> bool:
    """Draws a figure of its own for reports; its docstring is the caption.

    Args:
      rows: name of a model -> its rows, with the columns of rows.csv.
      figure: to draw on, empty.

    Returns:
      Whether there was anything to draw.
    """
    raise NotImplementedError

  @abc.abstractmethod
  def __call__(
    self, predictor: Any, world: Any, seed: int
  ) -> tuple[Scores, ...]:
    """Runs the trials; one Scores for each quantity.

    predictor, world: of the classes in `needs`, which a metric's own `__call__`
      names.
    """


class Model(Bounded, abc.ABC):
  """A spec that becomes a predictor; subclasses are frozen dataclasses.

  One that needs no training is a `Model`; others are `Trainable` or
  `Fittable`. A model that is there already, such as a PyTorch or Flax module or
  a function from tokens to logits, needs no such class: `wm.score` takes it as
  it is, and `help(wm.wrap)` lists the methods that it may have. One of them is
  how it learns a small task, which the metrics inductive_bias, transfer,
  relearn, state_recovery, extrapolation and force_law ask for (Vafa et al.
  2025: a foundation model is a rule that makes predictors of small data sets):

    adapt(tokens, places, labels, task) -> predict
    predict(tokens, places) -> answers

  tokens are [N, L] int32. places are two arrays [T], rows and columns, so that
  features[places] are those of the T labels. labels are [T, H] integers below
  task.kind.k, or [T, d] numbers. Answers are labels of the same shape, or
  scores [T, H, k] of which the highest wins. task also has steps, rate,
  trainable ('all' or 'head') and seed, for learners that use them.
  `launch/examples/my_model.py` has such a method in four lines.

  All other models learn without one: networks, and modules of PyTorch, Flax and
  Hugging Face, by fine-tuning with a new head; functions, whose weights are
  unknown, by a head on what they give; language models from labelled examples
  in the prompt; n-grams, Bayes and other processes by a table of labels for
  their own states.
  """

  # Counts up when it gives other results.
  version: ClassVar[str] = '1'
  # What it needs of a world, such as core.Labelled.surface_labels.
  needs: ClassVar[tuple[Need, ...]] = ()
  # Classes of predictor that it may give, the usual one first.
  gives: ClassVar[tuple[type[TokenReader], ...]] = (Predictor,)
  # Fields whose values ask the same in other words; reports show the range.
  paraphrases: ClassVar[tuple[str, ...]] = ()

  @property
  def name(self) -> str:
    """Registry name, see `plug_in_name`."""
    return plug_in_name(type(self))

  def code(self) -> tuple[str, ...]:
    """Modules that it runs besides its class's: 'package.name', 'file.py'."""
    return ()

  def undeclared_inputs(self) -> str:
    """Why the files that it reads are not all known; '' where they are.

    Those that its fields name are.
    """
    return ''

  @abc.abstractmethod
  def predictor(self, world: World, seed: int) -> TokenReader:
    """The predictor before any training (random weights for networks)."""


class Trainable(Model):
  """A network's spec, trained by gradient steps.

  Attributes:
    undecayed: names of parameters that weight decay never applies to.
  """

  undecayed: ClassVar[tuple[str, ...]] = ()

  def check_world(self, world: World) -> None:
    """Raises InputError where its networks cannot read a world's sequences."""

  @abc.abstractmethod
  def build(
    self, vocab_size: int, max_len: int, rngs: nnx.Rngs, outputs: int = 0
  ) -> nnx.Module:
    """The network with fresh weights, for sequences of max_len tokens.

    outputs: logits at each position; 0 is one for each token, the next one's.
    Other outputs have a head of their own, whatever else is tied.
    """

  def for_inference(self, params: nnx.State) -> tuple[Trainable, nnx.State]:
    """The same function in the form that predicts fastest, e.g. unstacked."""
    return self, params


class Fittable(Model):
  """A spec that is fitted in one pass over the data."""

  @abc.abstractmethod
  def fit(self, data: Iterable[Sequences], world: World) -> Predictor:
    """A predictor that depends on the spec and the data alone.

    data: the sequences, in parts that fit in memory.
    """

  @abc.abstractmethod
  def size(self, predictor: Any) -> int:
    """How many numbers were fitted."""

  @abc.abstractmethod
  def save(self, predictor: Any, path: str | pathlib.Path) -> None:
    """Writes a file that `load` reads, whole or not at all."""

  @abc.abstractmethod
  def load(self, path: str | pathlib.Path, world: World) -> Predictor:
    """Reads what `save` wrote; raises InputError if it is something else."""


def lacks(
  thing: Metric | type[Metric] | type[Model], *types: type
) -> list[Need]:
  """The needs of a metric or model that none of several types satisfies.

  types: of a predictor, of a world; only needs of these two kinds are looked
    at, so that a world can be asked about without a model.
  """
  # Needs of a kind that no type is of are not looked at: of a world alone, what
  # a predictor must be able to do is unknown.
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
  """The name of an interface in reasons: HiddenStates is hidden_states."""
  # A blank place before each capital that follows a small letter.
  return re.sub(r'(?<=[a-z])(?=[A-Z])', '_', need.__name__).lower()


def lacking_row(missing: Sequence[Need]) -> Scores:
  """A row that says why a metric could not be run at all."""
  reason = f'needs_{need_word(missing[0])}'
  return scores('all', [np.nan], reason=[reason])
