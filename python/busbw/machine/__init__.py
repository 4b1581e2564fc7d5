"""A machine as data: its topology, NCCL's files, logs and settings."""
