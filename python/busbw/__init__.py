"""busbw: what a machine or cluster delivers to collectives, measured, checked and explained."""

__version__ = "0.1.0"
