"""Faults of the program that calls the collectives."""
