"""Faults of the launch: launchers, rendezvous, schedulers."""
