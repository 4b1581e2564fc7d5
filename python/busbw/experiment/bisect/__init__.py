"""Bisection over releases of NCCL, values of a setting or launch profiles: where a size got slower."""
