"""Failures that name no reason."""
