"""Judges a run against thresholds or a baseline of good runs."""
