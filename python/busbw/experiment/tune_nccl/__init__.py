"""Searches NCCL's own settings by collective and size, proves the gain, and writes the table of the tuner plugin."""
