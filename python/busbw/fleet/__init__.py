"""Accepting many nodes by measurement: plan rounds of disjoint groups, judge their results, name what is slow."""
