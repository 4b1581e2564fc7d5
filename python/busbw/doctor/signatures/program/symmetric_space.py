"""No room is left in the address space that NCCL keeps for symmetric windows."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="symmetric-space",
    stage=Stage.PROGRAM,
    title="no address space is left for NCCL's symmetric windows: too many or too large ones are registered",
    patterns=(
        r"No suitable space found to accommodate size",
        r"Allocation failed\. No suitable space",
    ),
    explains=(
        "window-mismatch",
        "host-memory",
    ),
    confirm="count ncclCommWindowRegister against ncclCommWindowDeregister; NCCL_DEBUG_SUBSYS=REG",
    cure="register each buffer once and deregister it when done; raise NCCL_WIN_STRIDE; fewer or smaller windows",
    versions="NCCL 2.27 and later",
    source="NCCL src/allocator.cc, src/dev_runtime.cc",
)
