"""What one machine is and lacks: GPUs, links, limits, libraries."""
