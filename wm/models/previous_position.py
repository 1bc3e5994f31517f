"""A baseline for moving bodies: each stays at its last position."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from wm.models.serving import tracks


@dataclasses.dataclass(frozen=True)
class Model(tracks.TrackModel):
  """Predicts each coordinate near its value in the previous frame."""

  weights: ClassVar[tuple[int, ...]] = (1,)
