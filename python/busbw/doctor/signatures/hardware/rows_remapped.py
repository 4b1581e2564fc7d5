"""Rows of a GPU's memory that were replaced by spare ones, as the driver's list counts them."""

from collections.abc import Mapping, Sequence

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage


def _tell(groups: Sequence[Mapping[str, str]]) -> str:
    """How many, and whether a bank has no spare row left."""
    most = max((int(each["rows"]) for each in groups if "rows" in each), default=0)
    what = (
        f"up to {most} rows of a GPU's memory were replaced by spare ones"
        if most > 1
        else ("a row of a GPU's memory was replaced by a spare one")
    )
    if any("failed" in each for each in groups):
        return f"{what}, and a further row could not be: that GPU has no spare ones left and is to be replaced"
    if any("pending" in each for each in groups):
        return f"{what}, and one waits for it (Pending: Yes): it is done at the GPU's next reset"
    title = f"{what}: nothing is lost now"
    if any("none" in each for each in groups):
        return f"{title}, but a bank has no spare row left: have that GPU replaced when it suits"
    return title


SIGNATURE = Signature(
    name="rows-remapped",
    stage=Stage.HARDWARE,
    title="rows of a GPU's memory were replaced by spare ones: nothing is lost now",
    tell=_tell,
    patterns=(
        r"^\s{2,16}Uncorrectable Error {2,}: (?P<rows>[1-9]\d{0,4})\s*$",
        r"^\s{2,16}Remapping Failure Occurred {2,}: (?P<failed>Yes)\s*$",
        r"^\s{2,16}Pending {2,}: (?P<pending>Yes)\s*$",
        r"^\s{2,24}None {2,}: (?P<none>[1-9]\d{0,4} bank\(s\))",
    ),
    holds=lambda groups: any("rows" in each for each in groups),
    confirm="nvidia-smi -q -d ROW_REMAPPER: Pending and Remapping Failure Occurred say No",
    cure=(
        "a row that waits (Pending: Yes) needs a reset. Drain the node, nvidia-smi --gpu-reset -i GPU or reboot; "
        "Pending says No then. Watch the number: a failure to remap needs a new GPU"
    ),
    cost="none; while a row waits, its page of memory is set aside and checks of health fail",
    severity=Severity.NOTE,
    source="NVIDIA's guide to memory errors of its GPUs (row remapping)",
)
