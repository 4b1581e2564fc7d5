"""Whose memory is full, and with what."""
