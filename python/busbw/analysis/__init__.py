"""Statistics and comparison: pure functions from records to what can be concluded from them."""
