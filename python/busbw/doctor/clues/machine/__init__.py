"""GPUs and machines that stand apart, by their rows, counters and makes."""
