"""All cases by name."""

import calls
import training
from job import CASES

__all__ = ["CASES", "calls", "training"]
