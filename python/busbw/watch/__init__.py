"""Recordings of a running job: reading them, what was called, and who waits for whom."""
