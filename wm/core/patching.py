"""Interventions: predictors that go on from given activations, edited states.

Does a model use what a probe reads from it? Its activations are moved to where
the probe reads another state, the model goes on from there, and what it then
says is compared with that state (Li et al. 2023, section 4; Nanda et al. 2023).
"""

from __future__ import annotations

import abc

import numpy as np

from wm.core.capabilities import Labelled
from wm.core.predictor import HiddenStates, Predictor


class Patchable(Predictor, HiddenStates):
  """A predictor that goes on from activations that it is given."""

  @abc.abstractmethod
  def patched(
    self,
    tokens: np.ndarray,
    lengths: np.ndarray,
    layer: int,
    hidden: np.ndarray,
  ) -> np.ndarray:
    """[B, L, V] float32: as `log_probs`, from these activations on.

    tokens: [B, L] int32; lengths: [B].
    layer: where the activations are, see `hidden`.
    hidden: [B, L, D] float32, instead of what `hidden` gives there. With just
      that, the answer is that of `log_probs`.

    Raises:
      InputError: there is no such layer, or activations have another width.
    """


class Editable(Labelled):
  """A world whose states may differ in one label alone."""

  @abc.abstractmethod
  def edited(
    self, states: np.ndarray, label: np.ndarray, value: np.ndarray
  ) -> np.ndarray:
    """States [B, W] with label[b] set to value[b], all other labels alike.

    Dead where there is no such state: one that the rules can go on from. Games
    may not come to all of them. The history is forgotten.

    label: [B] integers below K.
    value: [B] integers.
    """
