"""Crossings of busbw's GPU algorithms on this machine: measured in turns, chosen by size, kept as a table."""
