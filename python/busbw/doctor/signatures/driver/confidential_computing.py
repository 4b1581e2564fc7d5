"""Confidential computing without protected traffic between GPUs."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="confidential-computing",
    stage=Stage.DRIVER,
    title="confidential computing is on, and traffic between GPUs is not protected, so that NCCL refuses it",
    patterns=(
        r"[Cc]onfidential [Cc]omput\w+.{0,80}(?:not support|unprotected|without|is not)",
        r"not support.{0,40}[Cc]onfidential [Cc]omput",
        r"CC On\b.{0,60}\b(?:CC Off|required|disabled|abort\w*)",
        r"confidential comput\w+.{0,100}(?:not supported|disabled|fail)",
    ),
    confirm="nvidia-smi conf-compute -q",
    cure=(
        "set the multi-GPU mode (nvidia-smi conf-compute, protected PCIe), or use one GPU per confidential "
        "virtual machine"
    ),
    versions="NCCL 2.24 and later",
    source="NCCL src/init.cc",
)
