"""All cases by name."""

import calls
import frameworks
import training
from job import CASES

__all__ = ["CASES", "calls", "frameworks", "training"]
