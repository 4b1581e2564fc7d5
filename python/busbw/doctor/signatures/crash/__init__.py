"""Processes that crash without naming the reason."""
