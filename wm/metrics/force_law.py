"""Force law: does a model tuned to predict forces follow Newton's law?

Vafa et al. 2025 (What Has a Foundation Model Found?) tune a model of orbits on
the forces of few planets, and fit laws to its predictions for other planets.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.core import adapting, basics
from wm.core.fields import field
from wm.evaluation import fewshot, force_laws, force_tasks
from wm.evaluation.force_laws import LawVerdicts

# Streams of randomness under one seed.
TRAINED, LABELLED, ASKED, SCORED, ADAPTED = range(61, 66)
SYSTEMS = 50  # Held-out systems of a data set.
MOVES = 3.0  # Least motion of a sun, in bins, in data sets about forces.
TOLERANCE = 0.05  # Tolerance of exponents.
NODES = 8  # Leaves and operators of the largest formulas.


@dataclasses.dataclass(frozen=True)
class Metric(fewshot.FewShotMetric):
  """Tunes a model to predict a target, and fits laws to its predictions.

  Each data set has its own systems and a new head: `examples` systems with
  `labels` labelled rows of planets in the second half of their sequences, and
  50 held-out systems with as many query rows. One target is the planet's
  acceleration towards its sun, G (m1 + m2) / r^2, which positions determine.
  The other is the force between both, G m1 m2 / r^2. It requires the planet's
  mass m1, and thus a sun that visibly moves. Logarithms (log_) are scaled to
  labels of mean 0 and variance 1, vectors (_vector) by one factor for both
  axes. Magnitudes are raw, as published; the largest dominate the loss.

  Laws are fitted to the predictions, given the true r, m1 and m2. Exponents
  come from a regression of logarithms. Formulas come from a search over all
  formulas of up to eight leaves and operators, the size of Newton's law. Each
  quantity is computed for the model and for two references: `_state` has the
  true state; `_neighbours` has the two nearest labelled states (published). No
  model can know more than the tokens show: bins have to be fine enough to tell
  the law, as 128 bins and 40 frames of orbits() are.

  Reasons of unmeasured rows: sun_rests (too few suns move by three bins),
  not_positive (more than a tenth of the predictions have no logarithm),
  few_systems (predictions remain for fewer than ten systems), undetermined (a
  variable is the same in all systems), constant (all predictions are equal),
  no_formula (no formula has values on all rows).

  Attributes:
    num: data sets.
    examples: labelled systems of each data set.
    labels: labelled rows, and query rows, of a system.
    targets: names among log_acceleration, acceleration, acceleration_vector,
      log_force, force and force_vector.
    steps: ascending numbers of training steps to score after; quantities of the
      last have no number in their names. Published: 10,000.
    searches: data sets in which formulas are searched.

  Glossary:
    newton: Share of data sets in which every exponent of the model's
      predictions is Newton's, within a tolerance, and 1 / r is ruled out. Where
      bins are coarse, no model can tell the law.
    newton_state: As newton, for predictions from the true state. It is 1 by
      definition.
    newton_neighbours: As newton, for the two nearest labelled states. This
      reference uses no law.
    exponent_r: Exponent of the distance in the model's predictions. Newton's is
      -2.
    exponent_m1: Exponent of the planet's mass in the model's predictions.
      Newton's is 1.
    exponent_m2: Exponent of the sun's mass in the model's predictions. Newton's
      is 1.
    exponent_mass: Exponent of the sum of both masses in the accelerations that
      the model predicts. Newton's is 1.
    r2: Share of the variance of the true target that the model explains, for
      logarithms with log_ targets. Below 0, the mean would be better.
    formula: Share of searched data sets in which the chosen formula has the
      shape of Newton's law, and `newton` holds. The rows hold each formula.
    law_error: Share of the target's variance that a law does not explain, for
      logarithms with log_ targets. Rows list the laws of the Pareto front, the
      shortest first, with length and error.
    positive: Share of predicted raw magnitudes that are above 0. The others
      have no logarithm, and exponents leave them out.
    angle: Mean angle between predicted and true vector, in degrees. A random
      vector has 90.
    target: target that the model is tuned to predict
  """

  version: ClassVar[str] = '3'
  needs: ClassVar[tuple[core.Need, ...]] = (
    core.Adaptable,
    core.Latent.trajectory,
  )
  sized_by: ClassVar[tuple[str, ...]] = ('num', 'num examples')
  measures: ClassVar[Mapping[str, core.Measure]] = {
    'newton': core.Measure(1, "its law is Newton's")
  }
  breakdown: ClassVar[tuple[str, ...]] = ('target',)

  num: int = field(10, least=1)
  examples: int = field(100, least=1)
  labels: int = field(4, least=1)
  targets: tuple[str, ...] = field(
    ('log_acceleration', 'log_force'), choices=force_tasks.TARGETS, fewest=1
  )
  steps: tuple[int, ...] = field((100,), **fewshot.STEPS)
  searches: int = field(5, least=0)

  def __call__(
    self, predictor: core.Adaptable, world: core.Latent, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; a row per data set and target.

    Rows are clustered by data set, each of which has a tuned model.
    """
    task = self.task(world, seed)
    judged: dict[int, list[LawVerdicts]] = {step: [] for step in self.steps}
    for target in self.targets:
      answers = self.told(task, target, predictor, seed)
      oracles = task.oracles(target)
      for step, answer in zip(self.steps, answers, strict=True):
        speakers = {'': answer, **oracles}
        judged[step] += self._judged(task, target, speakers)
    quantities: list[core.Scores] = []
    for step, verdicts in judged.items():
      last = step == self.steps[-1]
      quantities += force_laws.scores(verdicts, '', '' if last else f'_{step}')
    for name in oracles:
      quantities += force_laws.scores(verdicts, name, '')
    return tuple(quantities)

  def task(self, world: core.Latent, seed: int) -> OrbitTasks:
    """Data sets to tune a model on, and the query rows."""
    stream = functools.partial(basics.stream, seed)
    trained, tested = (
      force_tasks.shown(world, self.num, size, stream(word), split)
      for size, word, split in (
        (self.examples, TRAINED, 'train'),
        (SYSTEMS, ASKED, 'heldout'),
      )
    )
    labelled, asked = (
      force_tasks.OrbitPoints.of(
        systems,
        force_tasks.chosen(force_tasks.late(systems), self.labels, word),
      )
      for systems, word in (
        (trained, stream(LABELLED)),
        (tested, stream(SCORED)),
      )
    )
    return OrbitTasks(trained, labelled, tested, asked)

  def told(
    self, task: OrbitTasks, target: str, predictor: core.Adaptable, seed: int
  ) -> np.ndarray:
    """[S, D, M, P, d] predictions of a model tuned to predict a target."""
    raw = force_tasks.labels(target, task.labelled.state)
    level, scale = _scale(target, raw)
    values = np.nan_to_num((raw - level) / scale).astype(np.float32)
    train = adapting.FewShotTasks(
      task.trained.tokens, task.labelled.places, values
    )
    outputs = self.fine_tune(
      predictor,
      train,
      adapting.QueryPoints(task.tested.tokens, task.asked.places),
      adapting.Real(raw.shape[-1]),
      basics.stream(seed, ADAPTED),
    )
    return level + scale * outputs.astype(np.float64)

  def _judged(
    self, task: OrbitTasks, target: str, speakers: dict[str, np.ndarray]
  ) -> list[LawVerdicts]:
    """The verdicts of each data set, with formulas if it is searched."""
    judged = []
    for d in range(self.num):
      mask, rows = force_laws.rows(task.tested, task.asked, d, target, MOVES)
      each = {
        name: rows.verdict(target, answers[d][mask], TOLERANCE)
        for name, answers in speakers.items()
      }
      sought = None
      if d < self.searches:
        sought = rows.searched(target, each, NODES)
      judged.append(LawVerdicts(target, d, each, sought))
    return judged


def _scale(target: str, raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Mean and scale [D, 1, 1, 1] of labels [D, N, P, d]; see Metric."""
  axes = (1, 2, 3)
  none = np.zeros((len(raw), 1, 1, 1))
  if target.endswith('_vector'):
    return none, np.sqrt(np.nanmean(raw**2, axis=axes, keepdims=True))
  if target.startswith('log_'):
    spread = np.nanstd(raw, axis=axes, keepdims=True)
    scale = np.where(spread > 0, spread, 1)
    return np.nanmean(raw, axis=axes, keepdims=True), scale
  return none, none + 1


class OrbitTasks(NamedTuple):
  """D data sets: systems and rows.

  Attributes:
    trained, labelled: systems to tune on, and their labelled rows.
    tested, asked: query systems, and their query rows.
  """

  trained: force_tasks.Shown
  labelled: force_tasks.OrbitPoints
  tested: force_tasks.Shown
  asked: force_tasks.OrbitPoints

  def oracles(self, target: str) -> dict[str, np.ndarray]:
    """Reference -> [D, M, P, d] predictions; NaN if it has none."""
    values = force_tasks.labels(target, self.labelled.state)
    near = []
    for d, state in enumerate(self.labelled.state):
      mask = np.isfinite(state).all(-1)
      labelled = state[mask], values[d][mask]
      near.append(force_tasks.neighbours(*labelled, self.asked.state[d]))
    return {
      '_state': force_tasks.labels(target, self.asked.state),
      '_neighbours': np.stack(near),
    }
