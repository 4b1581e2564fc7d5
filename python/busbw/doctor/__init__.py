"""Findings: what keeps this machine from what its fabric can deliver, with evidence, cost, fix and proof."""
