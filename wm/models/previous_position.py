"""A baseline of moving bodies: each stays where it was."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from wm.models.serving import tracks


@dataclasses.dataclass(frozen=True)
class Model(tracks.TrackModel):
  """Each coordinate is near the one of the frame before: nothing moves."""

  weights: ClassVar[tuple[int, ...]] = (1,)
