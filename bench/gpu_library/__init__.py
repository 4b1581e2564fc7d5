"""Proves and measures busbw's own GPU collectives beside their peers; started as `python3 bench/gpu_library`."""
