"""Measures through torch.distributed what the engine measures through the NCCL API, in the same record."""
