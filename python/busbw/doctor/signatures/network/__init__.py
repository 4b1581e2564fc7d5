"""Faults of the network between hosts."""
