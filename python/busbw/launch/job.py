"""What is to be run, before anything is known about how."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


class Bind(enum.Enum):
    """Which processors a rank may use."""

    NONE = "none"
    CORES = "cores"


@dataclass(frozen=True)
class JobSpec:
    """One measurement by several ranks."""

    ranks: int
    engine: Path
    arguments: tuple[str, ...]  # the engine's words, the collective first
    environment: Mapping[str, str] = field(default_factory=dict)  # additions to what each rank inherits
    bind: Bind = Bind.NONE
