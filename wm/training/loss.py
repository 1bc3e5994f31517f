"""Training objectives: a network's outputs and their loss.

  next    logits [B, L, V] of each next token
  state   logits [B, L, C] of the world's state after each token: C is the sum
          of `Labelled.heads`, one softmax for each of the K labels

Reports give the mean loss per token in nats, whichever mean the gradient uses.
Shapes: B batch, L length, T positions with a loss, V vocabulary, K labels.
"""

from __future__ import annotations

import abc
import types
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from wm import core
from wm.data import store as stores
from wm.models.nn import layers, network
from wm.options.training import Training

# First entries of an evaluation, in this order, and of a step's report.
SUMS = ('loss', 'tokens', 'loss_moves', 'tokens_moves')
STEP = (*SUMS, 'grad_norm', 'lr')
CHUNK = 256  # Held-out rows that a fitted model evaluates at a time.


class TokenLosses(NamedTuple):
  """Losses of a network at T positions of each sequence.

  Attributes:
    loss: [B, T] float32, nats.
    position: [T] int32, index of the token that each loss belongs to.
    measures: [B, T, M] float32, evaluated besides the loss.
    smoothed: [B, T] float32, the loss that is trained, by smoothed targets;
      None: `loss`.
  """

  loss: jax.Array
  position: jax.Array
  measures: jax.Array
  smoothed: jax.Array | None = None

  def real(self, lengths_B: jax.Array) -> jax.Array:
    """[B, T] bool: the token is not padding."""
    return self.position[None, :] < lengths_B[:, None]


class Objective(abc.ABC):
  """An objective on one world; pure functions of a network and a batch.

  Attributes:
    outputs: number of logits at each position; 0 is next-token logits [V].
    world: world that gives a batch's labels, or None.
    measures: names of M further evaluated measures besides SUMS, means over
      tokens.
    per_sequence: measure that is 0 or 1 for each token -> name of the share of
      sequences in which it is 1 for all tokens; W of these.
  """

  measures: tuple[str, ...] = ()
  per_sequence: Mapping[str, str] = types.MappingProxyType({})

  def __init__(self, world: core.World, loss: str = 'token') -> None:
    """loss: 'token' averages over tokens, 'sequence' over sequences' means."""
    self.outputs = 0
    self.world: core.Labelled | None = None
    self.prompt_len, self.by_sequence = world.prompt_len, loss == 'sequence'

  @abc.abstractmethod
  def per_token_loss(
    self,
    net: network.Network,
    key: jax.Array | None,
    tokens_BL: jax.Array,
    *labels_BLK: jax.Array,
  ) -> TokenLosses:
    """The losses of a batch; dropout is applied only with a key."""

  def total(
    self, losses: TokenLosses, lengths_B: jax.Array
  ) -> tuple[jax.Array, jax.Array]:
    """([] sum of training losses, [] their number), without padding.

    Their ratio over the global batch is the training loss. A mean of its parts'
    means would weigh tokens of short parts more.
    """
    real_BT = losses.real(lengths_B)
    trained = losses.loss if losses.smoothed is None else losses.smoothed
    # Masked by `where`, not by a product: the loss of a pad may be infinite,
    # and 0 * inf is NaN.
    loss_B = jnp.where(real_BT, trained, 0).sum(-1)
    count_B = real_BT.sum(-1)
    # By sequence, all sequences weigh the same; by token, long ones weigh more.
    if self.by_sequence:
      # Rows of length 0 are padding of the batch.
      return (loss_B / jnp.maximum(count_B, 1)).sum(), (count_B > 0).sum()
    return loss_B.sum(), count_B.sum()

  def mean(self, losses: TokenLosses, lengths_B: jax.Array) -> jax.Array:
    """[] the training loss, without padding."""
    total, num = self.total(losses, lengths_B)
    return total / jnp.maximum(num, 1)

  def sums(self, losses: TokenLosses, lengths_B: jax.Array) -> jax.Array:
    """[4] float32, see SUMS; 'moves' are the tokens after the prompt."""
    real_BT = losses.real(lengths_B)
    # A prompt is drawn at random: its loss says nothing about the rules.
    move_BT = real_BT & (losses.position >= self.prompt_len)[None, :]
    totals = []
    for mask_BT in (real_BT, move_BT):
      totals += [jnp.where(mask_BT, losses.loss, 0).sum(), mask_BT.sum()]
    return jnp.stack([value.astype(jnp.float32) for value in totals])

  def evaluation(self, losses: TokenLosses, lengths_B: jax.Array) -> jax.Array:
    """[4 + M + W + 1] float32: `sums`, those of `measures` over all tokens and
    of `per_sequence` over all sequences, and the number of sequences.
    """
    real_BT1 = losses.real(lengths_B)[..., None]
    there_B1 = real_BT1.any(1)
    chosen = [self.measures.index(name) for name in self.per_sequence]
    # 1 at padding, so that the minimum over T ignores it.
    all_BTW = jnp.where(real_BT1, losses.measures[..., chosen], 1)
    return jnp.concatenate(
      [
        self.sums(losses, lengths_B),
        jnp.where(real_BT1, losses.measures, 0).sum((0, 1)),
        jnp.where(there_B1, all_BTW.min(1), 0).sum(0),
        there_B1.sum(0, dtype=jnp.float32),
      ]
    )

  @property
  def names(self) -> tuple[str, ...]:
    """Names of all evaluated quantities besides SUMS."""
    return (*self.measures, *self.per_sequence.values())

  def means(self, sums: np.ndarray) -> dict[str, float]:
    """Name -> value, from float64 sums of `evaluation`."""
    # sums: SUMS, then M over tokens, W over sequences, the number of sequences.
    sizes = len(self.measures), len(self.per_sequence)
    counts = np.repeat(sums[[1, -1]], sizes)
    values = sums[len(SUMS) : -1] / np.maximum(counts, 1)
    return dict(zip(self.names, values.tolist(), strict=True))


class NextTokenLoss(Objective):
  """-log p(tokens[:, t + 1] | tokens[:, :t + 1])."""

  def __init__(
    self, world: core.World, loss: str = 'token', smoothing: float = 0.0
  ) -> None:
    """smoothing: share of the trained target that is spread over all tokens."""
    super().__init__(world, loss)
    self._smoothing = smoothing

  def per_token_loss(
    self,
    net: network.Network,
    key: jax.Array | None,
    tokens_BL: jax.Array,
    *labels_BLK: jax.Array,
  ) -> TokenLosses:
    """See Objective; T is L - 1."""
    logits_BTV = net(tokens_BL[:, :-1], key)
    loss_BT = optax.softmax_cross_entropy_with_integer_labels(
      logits_BTV, tokens_BL[:, 1:]
    )
    # Logits at t predict token t + 1: place_T = 1, .., L - 1.
    place_T = jnp.arange(1, tokens_BL.shape[1])
    # Reports and evaluations are of the plain loss, whatever is trained.
    smoothed_BT = None
    if share := self._smoothing:
      # No sequence contains padding: its logit gets none of the target.
      log_sum_BT = jax.nn.logsumexp(logits_BTV, axis=-1)
      spread_BT = log_sum_BT - logits_BTV[..., core.PAD + 1 :].mean(-1)
      smoothed_BT = (1 - share) * loss_BT + share * spread_BT
    nothing = jnp.zeros((*loss_BT.shape, 0))
    return TokenLosses(loss_BT, place_T, nothing, smoothed_BT)


class StateLoss(Objective):
  """Mean over the K labels of -log p(label | tokens[:, :t + 1]).

  Walker and Lyons 2026, section 3; all labels weigh the same. Evaluation adds
  the loss of each of the world's groups of labels, and three shares: of labels
  that the most likely class predicts correctly, of tokens after which all
  labels are right, and of sequences in which they are right after every token.
  """

  per_sequence = types.MappingProxyType({'exact': 'trajectory'})

  def __init__(self, world: core.World, loss: str = 'token') -> None:
    """Raises InputError if the world has no labels."""
    super().__init__(world, loss)
    if not isinstance(world, core.Labelled):
      raise core.InputError(
        f'{world.name} gives its states no labels; available: objective=next'
      )
    self.heads, self.groups = world.heads.sizes, world.heads.groups
    self.outputs, self.world = sum(self.heads), world
    parts = (f'loss_{name}' for name in self.groups)
    self.measures = (*parts, 'exact', 'labelwise')

  def per_token_loss(
    self,
    net: network.Network,
    key: jax.Array | None,
    tokens_BL: jax.Array,
    *labels_BLK: jax.Array,
  ) -> TokenLosses:
    """See Objective; T is L."""
    (truth_BLK,) = labels_BLK
    # Logits stay in parts of equal heads: one array of all C would be copied.
    logits_BLC = net.parts(tokens_BL, key, layers.state_widths(self.heads))
    loss_BLK = layers.state_losses(logits_BLC, truth_BLK, self.heads)
    # The most likely class of each label, for `exact` and `labelwise`.
    named_BLK = layers.state_classes(logits_BLC, self.heads)
    right_BLK = (named_BLK == truth_BLK).astype(jnp.float32)
    # measures [B, L, M]: a loss for each group, then `exact` and `labelwise`.
    parts = [loss_BLK[..., part].mean(-1) for part in self.groups.values()]
    place_L = jnp.arange(tokens_BL.shape[1])
    stacked_BLM = jnp.stack([*parts, right_BLK.min(-1), right_BLK.mean(-1)], -1)
    return TokenLosses(loss_BLK.mean(-1), place_L, stacked_BLM)


def make(training: Training, world: core.World) -> Objective:
  """The objective of a run; raises InputError if the world lacks it."""
  if training.objective == 'state':
    return StateLoss(world, training.loss)
  return NextTokenLoss(world, training.loss, training.smoothing)


def fitted_sums(
  predictor: core.Predictor, world: core.World, store: stores.Store
) -> np.ndarray:
  """Held-out sums [4] of a fitted model, float64; see `SUMS`."""
  total = np.zeros(4)
  for rows in store.chunks(CHUNK):
    # [R, L - 1, V]: entry t predicts the token at t + 1.
    log_probs = predictor.log_probs(rows.tokens[:, :-1], rows.lengths - 1)
    target = rows.tokens[:, 1:]
    loss = -np.take_along_axis(log_probs, target[..., None], -1)[..., 0]
    place = np.arange(1, rows.tokens.shape[1])
    real = place < rows.lengths[:, None]
    # `place` is the target's position: 1 to L - 1.
    for k, mask in enumerate((real, real & (place >= world.prompt_len))):
      # See SUMS: all tokens without padding, then tokens after the prompt.
      total[2 * k] += loss[mask].sum(dtype=np.float64)
      total[2 * k + 1] += mask.sum()
  return total
