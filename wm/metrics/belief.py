"""Belief: is the posterior of the hidden state linear in the activations?

Shai et al. 2024 (Transformers represent belief state geometry in their residual
stream), sections 2.4 and 3: a least-squares map from the residual stream to the
simplex of beliefs, which for some worlds is a fractal.
"""

from __future__ import annotations

import colorsys
import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.core import basics
from wm.core.fields import field
from wm.evaluation import context, probing

if TYPE_CHECKING:
  import pandas as pd
  from matplotlib.figure import Figure

HELDOUT = 1000  # Test sequences.
RIDGE = 1e-6  # Penalty, relative to the variance of an activation.
DRAWN = 3000  # Test positions that a report draws.
# Source that beliefs are read from -> title of the figure's panel.
PANELS = {
  'true': 'true belief',
  'read': 'read from activations',
  'untrained': 'from untrained weights',
  'next_token': 'from next-token probabilities',
}


@dataclasses.dataclass(frozen=True)
class Metric(core.Metric):
  """Asks whether a linear map of activations gives the belief about the state.

  A ridge regression from activations to beliefs is fitted and tested.

  Each position after a token is a sample. The fit uses training sequences, the
  test held-out ones; the two share no whole sequence, but may share prefixes.
  R squared compares squared distances in the simplex with those from the mean
  belief of the fit: it is the explained share of the variance, without a lower
  bound. The Bayes predictor, whose activations are the belief, has 1.

  Two baselines read beliefs in the same way: from the model with untrained
  weights, and from the true probabilities of the next token. In some worlds,
  such as mess3, these probabilities are a linear image of the belief, and their
  R squared is 1: next-token prediction needs nothing else. In others, such as
  rrxor, different beliefs have the same next-token probabilities. A model above
  `r_squared_next_token` then represents tokens after the next.

  The paper fits without a penalty and on all sequences. It uses the last layer
  for mess3, and all layers, concatenated, for rrxor.

  Attributes:
    layers: layers whose activations are concatenated; -1 is the last, after the
      final norm; 0 is the embedding.

  Glossary:
    r_squared: Share of the variance of beliefs that a linear map of activations
      explains, on held-out sequences. At 1 the activations hold the exact
      posterior of the hidden state.
    r_squared_untrained: As r_squared, for the model with random weights. That
      much was not learned.
    r_squared_next_token: As r_squared, for the true probabilities of the next
      token instead of activations. A model above it represents more of the
      future.
    mse: Mean square error of each probability of the belief that is read. The
      paper prints it for mess3, 0.0004 before the last norm and 0.0003 after
      it (figure S1).
    distance: Mean distance in the simplex from the true belief to the belief
      that is read. Two certain beliefs in different states are the root of 2
      apart.
  """

  needs: ClassVar[tuple[core.Need, ...]] = (
    core.HiddenStates,
    core.Latent,
    core.Generative,
  )
  sized_by: ClassVar[tuple[str, ...]] = ('num',)
  measures: ClassVar[Mapping[str, core.Measure]] = {
    'r_squared': core.Measure(1, 'holds the true belief'),
    'mse': core.Measure(less_is_better=True),
    'distance': core.Measure(less_is_better=True),
  }

  num: int = field(4000, 'training sequences', least=1)
  layers: tuple[int, ...] = field((-1,), least=-1, distinct=True, fewest=1)

  def __call__(
    self, predictor: core.HiddenStates, world: core.Generative, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; a row per test sequence; per position for `distance`."""
    law = world.data_distribution()
    if not core.can(law, core.SequenceProcess.belief):
      return (core.scores('r_squared', [np.nan], reason=['no_beliefs']),)
    vocab_size = len(world.vocab)
    fit, test = (
      _Positions.of(law, vocab_size, world.sample(num, seed, split))
      for num, split in ((self.num, 'train'), (HELDOUT, 'heldout'))
    )
    if not len(test.belief):
      return (core.scores('r_squared', [np.nan], reason=['no_test_points']),)

    def read(reader: core.HiddenStates | None) -> np.ndarray:
      seen, shown = (
        part.activations(reader, self.layers) if reader else part.odds
        for part in (fit, test)
      )
      return probing.ridge(seen, fit.belief, RIDGE)(shown)

    beliefs = {'read': read(predictor), 'next_token': read(None)}
    if core.can(predictor, core.HiddenStates.untrained):
      beliefs['untrained'] = read(predictor.untrained(seed))
    group = context.clusters(world, test.sequences)
    row, position = test.points.row, test.points.position
    order = np.argsort(basics.hash64(seed, row, position), kind='stable')
    drawn = np.sort(order[:DRAWN])
    distance = np.linalg.norm(beliefs['read'] - test.belief, axis=1)
    return *_by_sequence(test, fit.belief.mean(0), beliefs, group), core.scores(
      'distance',
      distance[drawn],
      group=group[row[drawn]],
      columns={
        f'belief_{name}': _texts(belief[drawn])
        for name, belief in {'true': test.belief, **beliefs}.items()
      },
      bounds=(0, None),
    )

  @staticmethod
  def draw(rows: Mapping[str, pd.DataFrame], figure: Figure) -> bool:
    """True beliefs in the simplex, and the beliefs that a linear map reads.

    Each point has the colour of the true belief. The corners of the triangle
    are the three hidden states; with another number of states, axes are
    principal components of the beliefs.
    """
    models = {model: _panels(of_model) for model, of_model in rows.items()}
    models = {model: panels for model, panels in models.items() if panels}
    if not models:
      return False
    figure.set_size_inches(2.6 * len(PANELS), 2.5 * len(models))
    axes = iter(figure.subplots(len(models), len(PANELS)).flat)
    for number, (model, panels) in enumerate(models.items()):
      true = panels['true']
      corners = np.array([[0, 0], [1, 0], [0.5, 0.75**0.5]])
      if true.shape[1] != len(corners):
        corners = np.linalg.svd(true - true.mean(0), full_matrices=False)[2]
        corners = corners[:2].T
      hues = np.arange(true.shape[1]) / true.shape[1]
      pure = [colorsys.hsv_to_rgb(hue, 1, 0.9) for hue in hues]
      for name, title in PANELS.items():
        axis = next(axes)
        axis.set(xticks=[], yticks=[], aspect='equal')
        axis.spines[:].set_visible(False)
        axis.set_title('' if number else title, fontsize=9)
        if name == 'true':
          axis.set_ylabel(model.replace('$', r'\$'), fontsize=9)
        if name in panels:
          x, y = (panels[name] @ corners).T
          axis.scatter(x, y, s=2, c=np.clip(true @ pure, 0, 1), linewidths=0)
    return True


def _by_sequence(
  test: _Positions,
  mean: np.ndarray,
  beliefs: dict[str, np.ndarray],
  group: np.ndarray,
) -> Iterator[core.Scores]:
  """R squared and mean square error of beliefs that were read [P, S].

  mean: [S] mean belief of the fit, the reference of R squared. group: [N]
    clusters.
  """
  error = {
    name: np.bincount(
      test.points.row, ((belief - test.belief) ** 2).sum(1), len(group)
    )
    for name, belief in {**beliefs, 'mean': mean}.items()
  }
  variance, sizes = error.pop('mean'), test.sequences.lengths * len(mean)
  # If all beliefs are equal, there is no variance to explain.
  reason = np.full(len(group), '' if variance.any() else 'no_variation')
  for name, total in error.items():
    # Weighted by the variance, the mean is 1 - all errors / all variance.
    share = 1 - total / np.where(variance > 0, variance, np.inf)
    quantity = f'r_squared_{name}'.removesuffix('_read')
    yield core.scores(
      quantity,
      share,
      reason=reason,
      group=group,
      weight=variance,
      bounds=(-math.inf, 1.0),
    )
  mse = error['read'] / sizes
  yield core.scores('mse', mse, group=group, weight=sizes, bounds=(0, None))


def _texts(beliefs: np.ndarray) -> np.ndarray:
  """[P] str: beliefs [P, S], numbers joined by blanks."""
  return np.array([' '.join(f'{x:.4f}' for x in row) for row in beliefs])


def _panels(rows: pd.DataFrame) -> dict[str, np.ndarray]:
  """Panel -> [P, S] beliefs, for the panels in a model's rows."""
  points = rows[rows.quantity == 'distance'].dropna(axis=1, how='all')
  return {
    name: np.array([text.split() for text in points[column]], np.float64)
    for name in PANELS
    if len(points) and (column := f'belief_{name}') in points
  }


class _Positions(NamedTuple):
  """The P positions of sequences, one after each token.

  Attributes:
    sequences: N sequences.
    points: row and position of each.
    belief: [P, S] float64 true beliefs.
    odds: [P, V] true probabilities of the next token.
  """

  sequences: core.Sequences
  points: probing.LabelledPoints
  belief: np.ndarray
  odds: np.ndarray

  @classmethod
  def of(
    cls, law: core.SequenceProcess, vocab_size: int, sequences: core.Sequences
  ) -> _Positions:
    """The positions of sequences that a process generates."""
    tokens, lengths = sequences.tokens, sequences.lengths
    row, position = np.nonzero(np.arange(tokens.shape[1]) < lengths[:, None])
    memory = law.after_each(tokens, lengths)[row, position]
    following, log_probs = law.next(memory)
    odds = np.zeros((len(row), vocab_size))
    at, place = np.nonzero(following != core.DEAD)
    odds[at, following[at, place]] = np.exp(log_probs[at, place])
    none = np.zeros(len(row), bool)
    points = probing.LabelledPoints(row, position, none[:, None], none)
    return cls(sequences, points, law.belief(memory), odds)

  def activations(
    self, reader: core.HiddenStates, layers: tuple[int, ...]
  ) -> np.ndarray:
    """[P, D] activations of all layers, concatenated."""
    columns = [
      probing.activations(reader, self.sequences, self.points, layer)
      for layer in layers
    ]
    return np.concatenate(columns, axis=1)
