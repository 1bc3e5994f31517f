"""Force law: when tuned to tell forces, does a model tell Newton's?

Vafa et al. 2025 (What Has a Foundation Model Found?): a model of orbits is
given few planets' forces, and a law is sought in what it says of others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.core import adapting, basics
from wm.core.fields import field, field_error
from wm.evaluation import fewshot, force_laws, force_tasks, formulas
from wm.evaluation.force_laws import LawVerdicts

# Streams of randomness under one seed.
TRAINED, LABELLED, ASKED, SCORED, ADAPTED, BATCHES = range(61, 67)


@dataclasses.dataclass(frozen=True)
class Metric(fewshot.FewShotMetric):
  """Tunes a model to tell a target, and fits laws to what it says of others.

  Each data set has `examples` systems with `labels` labelled rows of planets,
  in the second half of their sequences, and `systems` held-out ones that are
  asked about at as many; it has systems and a new head of its own. Targets are
  the planet's acceleration from its sun, G (m1 + m2) / r^2, which positions
  tell, and the force between both, G m1 m2 / r^2, which takes the planet's
  mass m1, and so a sun that is seen to move. Logarithms (log_) are scaled to
  mean 0 and variance 1 of the labels, vectors (_vector) by one factor for both
  axes; magnitudes are raw, as published, where the greatest rule the loss.

  Laws are fitted to what is said, with the true r, m1 and m2 beside it:
  exponents by regression of logarithms, formulas by a search of all up to
  `nodes` leaves and operators. With verdict='held_out' a formula counts as a
  law only if systems that took no part in the search agree, and 'none' is an
  answer. Each quantity is told of the model, and of who
  could know: `_state` has the true state; `_tokens` fits an orbit to the bins
  up to the row; `_neighbours` has the two nearest labelled states (published).
  What positions do not tell no model can know: its verdict counts only where
  that of `_tokens` is right.

  Reasons of unmeasured rows: sun_rests, too few suns are seen to move by
  `moves` bins; no_orbit, too few orbits of two bodies can be read;
  not_positive, more than a tenth of what is said has no logarithm;
  few_systems, what is left is of fewer than ten; undetermined, a quantity is
  the same in all systems; constant, all that is said is the same;
  no_formula, none has values on all rows; tokens_do_not_tell, see above. With
  verdict='held_out' few_systems is fewer than 32.

  Attributes:
    num: data sets.
    examples: labelled systems of each.
    systems: held-out systems of each.
    labels: labelled rows of a system, and rows asked about.
    targets: of log_acceleration, acceleration, acceleration_vector, log_force,
      force and force_vector.
    steps: numbers of steps after which to score; the last one's quantities
      have no number in their names. Published are 10,000.
    rates: learning rates; of several, the best by validation loss.
    held: further labelled systems of each data set, for validation.
    part: 'all' weights are tuned, or the 'head' alone.
    keep: weights of the 'last' step, or the 'best' by validation loss.
    moves: bins by which a sun has to move, for forces.
    tolerance: of exponents.
    nodes: size of the largest formulas; Newton's law has 8. 0 is no search.
    searches: data sets in which formulas are sought.
    galaxies: subsets of up to 1,000 rows of each data set, drawn at random,
      each of which is judged by itself: laws of one tuned model. Published are
      5 of one data set; 0 judges data sets whole.
    engine: 'exhaustive', all formulas with one factor in front; or 'operon',
      genetic programming of formulas with weights and constants, which needs
      pyoperon, and is best given nodes=20, as published.
    verdict: the formula that is taken: 'fit', that at which the error falls
      most, as published; or 'held_out', the smallest that systems kept apart
      from the search agree with, which may have an offset and a constant
      inside, or none.
    batch: systems of each data set that a step is tuned on, drawn anew with
      replacement; 0 is all of them. Published are 64.
    variant: 'paper', or 'published', its program: nine tenths of the examples
      have labels at all rows of planets, the others at `labels` rows anywhere;
      asked about are, of these others, five rows a system that are nearest to
      a state of the former. Published are 10,000 examples.

  Glossary:
    newton: Share of data sets in which every exponent of what the model says
      is Newton's, within a tolerance, and 1 / r is ruled out. Where not even an
      orbit fitted to the tokens gets that far, the model is not judged.
    newton_state: The same of who knows the true state. It is 1 by definition.
    newton_tokens: The same of an orbit fitted to the tokens. Below 1, the study
      is too small to judge a model.
    newton_neighbours: The same of the two nearest labelled states. It knows no
      law.
    exponent_r: Exponent of the distance in what the model says. Newton's is -2.
    exponent_r_free: Exponent of the distance by which the tokens themselves
      say that both bodies fall, from paths fitted with no law assumed. Far from
      -2, the study is too small to judge a model.
    exponent_m1: Exponent of the planet's mass in what the model says. Newton's
      is 1.
    exponent_m2: Exponent of the sun's mass in what the model says. Newton's is
      1.
    exponent_mass: Exponent of the mass of both in accelerations that the model
      says. Newton's is 1.
    r2: Share of the variance of the true target that the model explains, of
      logarithms for log_ targets. Below 0, the mean would be better.
    formula: Share of searched data sets in which the formula found has the
      shape of Newton's law, and `newton` holds or systems held out agree. Which
      one was found is in the rows.
    law_error: Share of the target's variance that a law leaves, of logarithms
      for log_ targets. Rows are all laws of the front, the shortest first: law,
      length and what it leaves.
    positive: Share of raw magnitudes that the model says that are above 0.
      Others have no logarithm, and are left out of exponents.
    angle: Mean angle between the vector that the model says and the true one,
      in degrees. 90 is what a vector that knows nothing has.
    target: what the model is tuned to tell
  """

  version: ClassVar[str] = '2'
  needs: ClassVar[tuple[core.Need, ...]] = (
    core.Adaptable,
    core.Latent.trajectory,
  )
  sized_by: ClassVar[tuple[str, ...]] = (
    'num',
    'num examples',
    'num held',
    'num systems',
  )
  ideal: ClassVar[Mapping[str, str]] = {
    'newton': "1: its law is Newton's",
  }
  breakdown: ClassVar[tuple[str, ...]] = ('target',)

  num: int = field(10, least=1)
  examples: int = field(100, least=1)
  systems: int = field(50, least=force_tasks.FEWEST)
  labels: int = field(4, least=1)
  targets: tuple[str, ...] = field(
    ('log_acceleration', 'log_force'), choices=force_tasks.TARGETS, fewest=1
  )
  steps: tuple[int, ...] = field((100,), **fewshot.STEPS)
  rates: tuple[float, ...] = field((6e-4,), **fewshot.RATES)
  held: int = field(0, least=0)
  part: str = field('all', choices=fewshot.PARTS)
  keep: str = field('last', choices=fewshot.KEEPS)
  moves: float = 3.0
  tolerance: float = 0.05
  nodes: int = field(8, least=0)
  searches: int = field(5, least=0)
  galaxies: int = field(0, least=0)
  engine: str = field('exhaustive', choices=formulas.ENGINES)
  verdict: str = field('fit', choices=('fit', 'held_out'))
  batch: int = field(0, least=0)
  variant: str = field('paper', choices=('paper', 'published'))

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.verdict == 'held_out' and self.engine != 'exhaustive':
      raise field_error(self, 'verdict engine', "engine='exhaustive'")
    least = 10 * force_tasks.FEWEST
    if self.variant == 'published' and self.examples < least:
      expected = f'at least {least} examples, a tenth of which is asked about'
      raise field_error(self, 'examples variant', expected)

  def passes(self) -> int:
    """See core.Metric."""
    return len(self.targets)

  def __call__(
    self, predictor: core.Adaptable, world: core.Latent, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; a row per data set, galaxy and target.

    Rows are clustered by data set, each of which has a tuned model.
    """
    if self.nodes:
      formulas.check_engine(self.engine, self.nodes)
    task = self.task(world, seed)
    read = force_tasks.read(task.tested, task.asked.rows)
    judged: dict[int, list[LawVerdicts]] = {step: [] for step in self.steps}
    for target in self.targets:
      answers = self.told(task, target, predictor, seed)
      oracles = task.oracles(target, read)
      for step, answer in zip(self.steps, answers, strict=True):
        speakers = {'': answer, **oracles}
        judged[step] += self._judged(task, target, speakers)
    quantities: list[core.Scores] = []
    for step, verdicts in judged.items():
      last = step == self.steps[-1]
      quantities += force_laws.scores(verdicts, '', '' if last else f'_{step}')
    for name in oracles:
      quantities += force_laws.scores(verdicts, name, '')
    power = -force_tasks.free_power(task.tested)
    why = np.where(np.isnan(power), 'no_orbit', '')
    free = core.scores('exponent_r_free', power, reason=why, bounds=None)
    return *quantities, dataclasses.replace(free, outliers=True)

  def task(self, world: core.Latent, seed: int) -> OrbitTasks:
    """Data sets that a model is tuned on, and what it is asked then."""

    def stream(*words: int) -> int:
      return basics.stream(seed, *words)

    most = self.examples + self.held
    systems = force_tasks.shown(world, self.num, most, stream(TRAINED), 'train')
    trained, held = (
      systems.take(slice(self.examples)),
      systems.take(slice(self.examples, None)),
    )
    labelled = force_tasks.late(trained)
    spare = force_tasks.chosen(
      force_tasks.late(held), self.labels, stream(LABELLED, 1)
    )
    if self.variant == 'paper':
      tested = force_tasks.shown(
        world, self.num, self.systems, stream(ASKED), 'heldout'
      )
      mask = force_tasks.late(tested)
      asked = force_tasks.chosen(mask, self.labels, stream(SCORED))
      rows = force_tasks.chosen(labelled, self.labels, stream(LABELLED))
    else:
      tested, rows, asked = _published(trained, self.labels, stream(LABELLED))
    return OrbitTasks(
      trained,
      force_tasks.OrbitPoints.of(trained, rows),
      held,
      force_tasks.OrbitPoints.of(held, spare),
      tested,
      force_tasks.OrbitPoints.of(tested, asked),
    )

  def told(
    self, task: OrbitTasks, target: str, predictor: core.Adaptable, seed: int
  ) -> np.ndarray:
    """[S, D, M, P, d] what the model says of a task, tuned to tell a target."""
    raw = force_tasks.labels(target, task.labelled.state)
    level, scale = _scale(target, raw)

    def sets(
      systems: force_tasks.Shown, at: force_tasks.OrbitPoints
    ) -> adapting.FewShotTasks:
      values = (force_tasks.labels(target, at.state) - level) / scale
      values = np.nan_to_num(values).astype(np.float32)
      return adapting.FewShotTasks(systems.tokens, at.places, values)

    held = sets(task.held, task.spare) if self.held else None
    train = sets(task.trained, task.labelled)
    outputs = self.fine_tune(
      predictor,
      fewshot.batches(train, self.batch, basics.stream(seed, BATCHES)),
      adapting.QueryPoints(task.tested.tokens, task.asked.places),
      adapting.Real(raw.shape[-1]),
      basics.stream(seed, ADAPTED),
      validation=held,
    )
    return level + scale * outputs.astype(np.float64)

  def _judged(
    self, task: OrbitTasks, target: str, speakers: dict[str, np.ndarray]
  ) -> list[LawVerdicts]:
    """Each data set's verdicts, and formulas of those that are searched."""
    judged = []
    for d in range(self.num):
      mask, rows = force_laws.rows(
        task.tested, task.asked, d, target, self.moves
      )
      for galaxy, part in enumerate(rows.parts(self.galaxies, d)):
        judged_rows = rows.take(part)
        each = {
          name: judged_rows.verdict(
            target, answers[d][mask][part], self.tolerance
          )
          for name, answers in speakers.items()
        }
        sought = None
        if self.nodes and d < self.searches:
          sought = self._sought(judged_rows, target, each, d)
        number = galaxy if self.galaxies else None
        judged.append(LawVerdicts(target, d, each, sought, number))
    return judged

  def _sought(
    self,
    rows: force_laws.LawRows,
    target: str,
    speakers: dict[str, force_laws.Verdict],
    d: int,
  ) -> dict[str, force_laws.Sought]:
    if self.verdict == 'held_out':
      return rows.named(target, speakers, self.nodes, self.tolerance, d)
    search = formulas.ENGINES[self.engine]
    return rows.searched(target, speakers, self.nodes, search)


def _scale(target: str, raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Level and scale [D, 1, 1, 1] of labels [D, N, P, d], see Metric."""
  axes = (1, 2, 3)
  none = np.zeros((len(raw), 1, 1, 1))
  if target.endswith('_vector'):
    return none, np.sqrt(np.nanmean(raw**2, axis=axes, keepdims=True))
  if target.startswith('log_'):
    spread = np.nanstd(raw, axis=axes, keepdims=True)
    scale = np.where(spread > 0, spread, 1)
    return np.nanmean(raw, axis=axes, keepdims=True), scale
  return none, none + 1


def _published(
  trained: force_tasks.Shown, labels: int, seed: int
) -> tuple[force_tasks.Shown, np.ndarray, np.ndarray]:
  """Systems asked about, rows labelled, and rows asked about; see Metric."""
  num = trained.planet.shape[1]
  few = num - num // 10
  whole = np.arange(num)[:, None] < few
  sparse = force_tasks.chosen(trained.planet, labels, seed)
  everything = trained.planet.shape[2]
  rows = force_tasks.chosen(trained.planet & whole, everything, seed)
  rows[:, few:, : sparse.shape[2]] = sparse[:, few:]
  tested = trained.take(slice(few, None))
  near = np.stack(
    [
      force_tasks.nearest(
        states[:few][trained.planet[d, :few]], states[few:], 5 * (num - few)
      )
      for d, states in enumerate(trained.state)
    ]
  )
  asked = force_tasks.chosen(near, int(near.sum(2).max()), seed)
  return tested, rows, asked


class OrbitTasks(NamedTuple):
  """D data sets: systems, and rows of them.

  Attributes:
    trained, labelled: what is tuned on.
    held, spare: what chooses; it may be empty.
    tested, asked: what is asked about.
  """

  trained: force_tasks.Shown
  labelled: force_tasks.OrbitPoints
  held: force_tasks.Shown
  spare: force_tasks.OrbitPoints
  tested: force_tasks.Shown
  asked: force_tasks.OrbitPoints

  def oracles(self, target: str, read: np.ndarray) -> dict[str, np.ndarray]:
    """[D, M, P, d] what each says who could know; NaN where it cannot."""
    values = force_tasks.labels(target, self.labelled.state)
    near = []
    for d, state in enumerate(self.labelled.state):
      mask = np.isfinite(state).all(-1)
      labelled = state[mask], values[d][mask]
      near.append(force_tasks.neighbours(*labelled, self.asked.state[d]))
    return {
      '_state': force_tasks.labels(target, self.asked.state),
      '_tokens': force_tasks.labels(target, read),
      '_neighbours': np.stack(near),
    }
