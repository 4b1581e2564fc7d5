"""Machines as values: GPUs, NVLinks, PCIe, NUMA nodes and NICs, read from live systems and from files."""
