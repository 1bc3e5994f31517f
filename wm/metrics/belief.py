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

# What beliefs are read from -> the panel of the figure.
PANELS = {
  'true': 'true belief',
  'read': 'read from activations',
  'untrained': 'from untrained weights',
  'next_token': 'from next-token probabilities',
}


@dataclasses.dataclass(frozen=True)
class Metric(core.Metric):
  """Asks whether a linear map of activations gives the belief about the state.

  Fits a ridge regression from activations to beliefs, tests it on others.

  A position is one after a token. Fitted on training sequences, tested on
  held-out ones, which share no whole sequence with these, but short prefixes.
  R squared compares squared distances in the simplex with those of the mean
  belief of the fit: the share of the variance that is read. It has no lower
  bound. The Bayes predictor, whose activations are the belief, has 1.

  Beside it stand beliefs that are read the same way from the model's untrained
  weights, and from the true probabilities of the next token. In some worlds,
  such as mess3, these are a linear image of the belief, and have an R squared
  of 1: a model of next tokens needs nothing else. In others, such as rrxor,
  beliefs that differ have the same next token: what a model has beyond
  `r_squared_next_token` is about the tokens after it.

  The paper fits without a penalty and on all sequences, and takes the last
  layer of mess3, and all layers of rrxor, concatenated.

  Attributes:
    layers: layers whose activations are concatenated; -1 is the last, final
      norm included, 0 the embedding.

  Glossary:
    r_squared: Share of the variance of beliefs that a linear map of activations
      explains, on held-out sequences. At 1 the activations hold the exact
      posterior of the hidden state.
    r_squared_untrained: The same of the model with random weights. What is read
      there was not learned.
    r_squared_next_token: The same of the true probabilities of the next token
      instead of activations. A model above it knows more of the future.
    mse: Mean square error of a probability of the belief that is read. The
      paper prints it for mess3, 0.0004 before the last norm and 0.0003 behind
      it (figure S1).
    distance: Mean distance in the simplex from the true belief to the one that
      is read. Two states known for sure are the root of 2 apart.
  """

  needs: ClassVar[tuple[core.Need, ...]] = (
    core.HiddenStates,
    core.Latent,
    core.Generative,
  )
  sized_by: ClassVar[tuple[str, ...]] = ('num', 'tested')
  ideal: ClassVar[Mapping[str, str]] = {
    'r_squared': '1: holds the true belief',
  }
  less_is_better: ClassVar[tuple[str, ...]] = ('mse', 'distance')

  num: int = field(4000, 'training sequences', least=1)
  tested: int = field(1000, 'held-out sequences', least=1)
  layers: tuple[int, ...] = field((-1,), least=-1, distinct=True, fewest=1)
  ridge: float = field(
    1e-6, 'penalty, relative to the variance of an activation', above=0
  )
  points: int = field(3000, 'test positions that a report draws', least=1)

  def __call__(
    self, predictor: core.HiddenStates, world: core.Generative, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; a row per test sequence, of `distance` per position."""
    law = world.data_distribution()
    if not core.can(law, core.SequenceProcess.belief):
      return (core.scores('r_squared', [np.nan], reason=['no_beliefs']),)
    vocab_size = len(world.vocab)
    fit, test = (
      _Positions.of(law, vocab_size, world.sample(num, seed, split))
      for num, split in ((self.num, 'train'), (self.tested, 'heldout'))
    )
    if not len(test.belief):
      return (core.scores('r_squared', [np.nan], reason=['no_test_points']),)

    def read(reader: core.HiddenStates | None) -> np.ndarray:
      seen, shown = (
        part.activations(reader, self.layers) if reader else part.odds
        for part in (fit, test)
      )
      return probing.ridge(seen, fit.belief, self.ridge)(shown)

    beliefs = {'read': read(predictor), 'next_token': read(None)}
    if core.can(predictor, core.HiddenStates.untrained):
      beliefs['untrained'] = read(predictor.untrained(seed))
    group = context.clusters(world, test.sequences)
    row, position = test.points.row, test.points.position
    order = np.argsort(basics.hash64(seed, row, position), kind='stable')
    drawn = np.sort(order[: self.points])
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
    """True beliefs in the simplex, and where a linear map reads them.

    Each point has the colour of the true belief. The corners of a triangle are
    three hidden states; of more, axes are principal components of the beliefs.
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
  """R squared of beliefs that were read [P, S], and their mean square error.

  mean: [S] what R squared compares with. group: [N] clusters.
  """
  error = {
    name: np.bincount(
      test.points.row, ((belief - test.belief) ** 2).sum(1), len(group)
    )
    for name, belief in {**beliefs, 'mean': mean}.items()
  }
  variance, sizes = error.pop('mean'), test.sequences.lengths * len(mean)
  # Of one belief alone there is no share to read.
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
  """[P, S] beliefs of each panel that rows of a model have."""
  points = rows[rows.quantity == 'distance'].dropna(axis=1, how='all')
  return {
    name: np.array([text.split() for text in points[column]], np.float64)
    for name in PANELS
    if len(points) and (column := f'belief_{name}') in points
  }


class _Positions(NamedTuple):
  """The P positions of sequences, one after each token.

  Attributes:
    sequences: N of them.
    points: where the positions are.
    belief: [P, S] float64.
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
    """Of sequences that follow a law."""
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
    """[P, D] of all layers, side by side."""
    columns = [
      probing.activations(reader, self.sequences, self.points, layer)
      for layer in layers
    ]
    return np.concatenate(columns, axis=1)
