"""A node of a liquid-cooled rack reports a leak or a loss of coolant."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="coolant-leak",
    stage=Stage.HARDWARE,
    title="a rack or node reports that coolant leaks or does not flow",
    patterns=(
        r"\bleak(?:age)?(?: was| is|s)? detected\b|\bleak_?detect\w*\b.{0,60}(?:critical|warning|alarm|assert|fault)",
        r"\b(?:coolant|CDU|cold ?plate)\b.{0,80}"
        r"(?:low flow|flow (?:is )?(?:low|lost)|leak|alarm|pressure (?:is )?(?:low|lost)|over ?temperature)",
    ),
    confirm="the events of the BMC (ipmitool sel elist, Redfish) and of the cooling unit",
    cure=(
        "drain the node and have the rack's cooling looked at before it is powered on again; power off is the "
        "BMC's own choice"
    ),
    source="events of BMCs (IPMI, Redfish) and cooling units",
    unless=("memory", "memleak", "leaked", "no leak", "not assert", "deassert"),
    explains=("node-lost", "slurm-error", "gpu-slowdown"),
)
