"""Any other call of libibverbs."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="ibv-call-failed",
    stage=Stage.FAILURE,
    title="a call of libibverbs failed: {what}",
    patterns=(
        r"Call to (?P<what>(?:wrap_)?ibv_\w+ failed.{0,80})",
        r"(?P<what>ibv_\w+\(\) (?:failed|returned).{0,60})",
        r"(?P<what>mlx5dv_\w+ failed.{0,60})",
    ),
    confirm="ibv_devinfo -v; ibv_rc_pingpong between the nodes; `dmesg | grep mlx5`",
    cure=(
        "update rdma-core, the NIC's firmware and driver to one release on all nodes; run once with "
        "NCCL_IB_DISABLE=1 to be sure that RDMA is at fault"
    ),
    source="NCCL src/misc/ibvwrap.cc",
)
