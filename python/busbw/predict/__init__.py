"""Predictions: time and bus bandwidth for sizes, GPUs and nodes that nobody has run, each with an interval."""
