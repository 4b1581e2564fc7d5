"""By finding, what looks for clues of it, in this order; before the rows of words."""

from collections.abc import Mapping

from busbw.doctor.clues.finders.finder import Finder
from busbw.doctor.clues.finders.of_jobs import OF_JOBS
from busbw.doctor.clues.finders.of_machine import OF_MACHINE
from busbw.doctor.clues.finders.of_network import OF_NETWORK

FINDERS: Mapping[str, tuple[Finder, ...]] = {**OF_NETWORK, **OF_MACHINE, **OF_JOBS}

__all__ = ["FINDERS", "Finder"]
