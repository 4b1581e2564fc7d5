"""Faults of the operating system, of containers and of what a host offers to a job."""
