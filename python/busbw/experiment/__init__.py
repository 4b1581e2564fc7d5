"""Experiments: variants of settings measured in interleaved rounds until the verdicts are sure, or the time is up."""
