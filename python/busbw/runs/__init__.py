"""Runs are kept as folders; an index beside them answers questions about all of them."""
