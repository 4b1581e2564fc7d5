"""Clouds whose jobs busbw submits, one folder each."""
