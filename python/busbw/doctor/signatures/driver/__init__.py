"""Faults of drivers and of the GPU runtime."""
