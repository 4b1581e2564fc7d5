"""The subnet manager of InfiniBand or of NVLink switches (opensm, nvlsm) reports an error."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="subnet-manager",
    stage=Stage.NETWORK,
    title="the subnet manager (opensm, or nvlsm of NVLink switches) reports an error",
    patterns=(
        r"\] 0x0[12] -> \w{2,60}: ERR \w{4,6}:? (?P<said>.{3,120})",
        r"\] 0x80 -> .{0,20}(?P<said>Found remote SM with non-matching sm_key.{0,20})",
        # Errors -11 and -110 are of a fabric that comes up, and pass.
        r"(?P<said>\bib[\w.]{0,14}: multicast join failed for \S{4,60} status -22)",
    ),
    explains=("fabric-manager", "ib-port-down", "ib-connect-timeout", "master-unreachable", "connection-timeout"),
    confirm="sminfo; ibdiagnet; iblinkinfo; the log of the subnet manager from its start",
    cure=(
        "see that one subnet manager is master (sminfo), its node's port is Active, and opensm.conf and "
        "partitions.conf are as meant; restart it and look at its first errors"
    ),
    severity=Severity.WARNING,
    source="opensm's log; NVLink's nvlsm writes the same",
)
