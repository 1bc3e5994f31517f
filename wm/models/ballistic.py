"""A baseline of moving bodies: each goes straight on."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from wm.models.serving import tracks


@dataclasses.dataclass(frozen=True)
class Model(tracks.TrackModel):
  """Each coordinate is near where two frames lead: no force is known."""

  weights: ClassVar[tuple[int, ...]] = (2, -1)
