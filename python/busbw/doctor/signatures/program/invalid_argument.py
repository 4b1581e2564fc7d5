"""A call got an argument that NCCL or CUDA refuses."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="invalid-argument",
    stage=Stage.PROGRAM,
    title="a call to NCCL got an argument that it refuses: {what}",
    patterns=(
        r"(?P<what>\bnccl(?:Comm|Group|RedOp|Mem|Win)\w+ ?: .{0,60}\b(?:must be|must not|has to be) .{3,60})",
        r"ProcessGroup\w*::\w+: (?P<what>invalid .{5,100})",
        r"(?P<what>(?:\w{2,30} : )?\w{1,30}(?: (?:0x\w+|\(nil\)))? is not a valid pointer)",
        r"(?P<what>allocated on device \d+ mismatch\w* with NCCL device \d+)",
        r"(?P<what>\w+ argument is NULL)",
        r"(?P<what>invalid (?:root|reduction operation|type) -?\d+)",
        r"(?P<what>reduction operation \d+ unknown)",
        r"(?P<what>Invalid config \w+)",
        r"(?P<what>\w+ argument (?:must be|not) initialized)",
        r"(?P<what>peer -?\d+ is not within valid range)",
        r"(?P<what>FP8 reduction support begins)",
        r"(?P<what>Tensors must be (?:CUDA and dense|contiguous|on distinct GPU devices))",
        r"(?P<what>Expected all tensors to be on the same device)",
        r"(?P<what>No backend type associated with device type cpu)",
        r"(?P<what>Invalid scalar type)",
        r"NCCL WARN.{0,20}(?P<what>ncclCommGrow: .{5,80})",
        r"(?P<what>Invali[dg] (?:arguments comm|config graphUsageMode|handle 0x|argument (?:comm|desc)).{0,60})",
        r"(?P<what>(?:i|I)nvalid device count.{0,30})",
        r"(?P<what>ncclRedOpDestroy ?: .{5,60})",
        r"(?P<what>(?:Flags|Context|Signal index) \d+ is invalid)",
        r"(?P<what>Data type supplied to user-created ncclRedOp_t.{0,60})",
        r"(?P<what>[Ii]nvalid pointer 0x\w+.{0,30})",
        r"(?P<what>Could not find communicator matching window)",
        r"(?P<what>alignment \d+ is not power of 2|extends beyond allocation"
        r"|No allocation found at offset|does not exist in shadow pool)",
    ),
    confirm="NCCL_DEBUG=INFO and NCCL_CHECK_POINTERS=1: the line before the error names the argument",
    cure=(
        "use contiguous CUDA tensors on the rank's own device (torch.cuda.set_device), valid root, "
        "op and type, counts alike on all ranks"
    ),
    source="NCCL src/misc/argcheck.cc, src/init.cc",
)
