"""Errors of HPE Slingshot (Cassini, libfabric's CXI provider)."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="slingshot",
    stage=Stage.NETWORK,
    title="the Slingshot network (libfabric's CXI provider) reports errors: matching resources, links or a dead peer",
    patterns=(
        r"OFI (?:poll|call|send|recv|\w{2,20}) failed.{0,160}(?:UNDELIVERABLE|PTLTE_NOT_FOUND|NO_MATCH|TRS_\w+|:cxi)",
        r"completion queue exhaustion|FI_CXI_\w+ (?:to a higher|must|should|needs)",
        r"LE resources not recovered|FI_CXI_RX_MATCH_MODE=\S+ is required",
        r":cxi:.{0,160}<warn>.{0,200}(?:C_RC_[A-Z_]+|error|fail|timeout|exhausted|not recovered)",
        r"\bC_RC_(?:UNDELIVERABLE|TRS_\w+|PTLTE_\w+|NO_\w+|HRP_\w+|PERM_\w+|OP_\w+|ENTRY_\w+|RST_\w+)",
        r"\bcxip_\w+\(?\)?.{0,80}(?:fail|error|exhaust)",
        r"\bcxi(?:_core|_ss1|_user|\d+).{0,60}(?:error|fail|link (?:is )?down|timed out)",
        r"cxil?_\w+.{0,40}(?:failed|returned -\d+)",
    ),
    explains=("mpi-network",),
    confirm="fi_info -p cxi; cxi_healthcheck or cxi_stat on the named node; env | grep -e FI_CXI -e FI_MR",
    cure=(
        "set FI_CXI_RX_MATCH_MODE=hybrid (or software), FI_CXI_DEFAULT_CQ_SIZE=131072, FI_CXI_DISABLE_HOST_REGISTER=1 "
        "and FI_MR_CACHE_MONITOR=userfaultfd, as the site advises; an undeliverable message means that the peer or its "
        "link died first"
    ),
    source="libfabric prov/cxi; aws-ofi-nccl on Slingshot",
)
