"""What NCCL reads and writes: its log, its configuration files, its topology and graph files."""
