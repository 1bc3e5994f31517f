"""A baseline for moving bodies: each moves on in a straight line."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from wm.models.serving import tracks


@dataclasses.dataclass(frozen=True)
class Model(tracks.TrackModel):
  """Extrapolates each coordinate linearly from two frames, without forces."""

  weights: ClassVar[tuple[int, ...]] = (2, -1)
