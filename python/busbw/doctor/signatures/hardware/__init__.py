"""Faults of hardware: GPUs, links, NICs, memory, power and cooling."""
