"""What makes one finding the cause of others that stand beside it (`busbw.doctor.clues.sequels` applies it)."""

from busbw.doctor.clues.links.of_gpus import OF_GPUS
from busbw.doctor.clues.links.of_jobs import OF_JOBS
from busbw.doctor.clues.links.of_machines import OF_MACHINES

LINKS = (*OF_MACHINES, *OF_JOBS, *OF_GPUS)

__all__ = ["LINKS"]
