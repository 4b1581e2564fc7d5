"""A buffer of the program could not be registered."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="registration-failed",
    stage=Stage.SYSTEM,
    title="a buffer could not be registered with NICs or peers: {what}",
    patterns=(
        r"register/\w+\.cc:\d+ .{0,40}(?P<what>Cuda failure .{3,60})",
        r"(?P<what>rank \d+ (?:de)?register \w+ buffer.{0,80}failed)",
        r"NCCL WARN.{0,40}(?P<what>failed to (?:NET|IPC) register userbuff.{0,60})",
        r"(?P<what>[Ff]ailed to register (?:local |remote )?memory.{0,80})",
        r"(?P<what>register fails, buffer \S+.{0,60})",
        r"(?P<what>Deregister: Could not find handle)",
        r"(?P<what>rank \d+ invalid IPC peer\w+.{0,60})",
        r"(?P<what>async reg mr failed\. status -?\d+)",
        r"mlx5_cmd_out_err.{0,60}(?P<what>CREATE_MKEY).{0,60}failed",
        r"(?P<what>could not find mr \S+ inside cache)",
    ),
    confirm="NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=REG on the rank that says it",
    cure=(
        "run without registration: NCCL_LOCAL_REGISTER=0 and NCCL_GRAPH_REGISTER=0; deregister before "
        "freeing, and keep buffers until the communicator is destroyed"
    ),
    explains=("gpu-too-new", "cuda-call-failed"),
    versions="NCCL 2.19 and later",
    source="NCCL src/register, src/transport/p2p.cc, src/transport/net.cc",
)
