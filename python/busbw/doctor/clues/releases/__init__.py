"""Releases of NCCL and its files that do not fit each other."""
