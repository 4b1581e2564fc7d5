"""A GPU whose PCIe link runs with fewer lanes than it has, as nvidia-smi -q tells."""

from collections.abc import Mapping, Sequence

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

Groups = Sequence[Mapping[str, str]]


def _lanes(groups: Groups) -> tuple[int, int]:
    """The fewest lanes in use, and the most that a GPU has."""
    used = [int(each["used"]) for each in groups if each.get("used", "0") != "0"]
    most = [int(each["most"]) for each in groups if "most" in each]
    return min(used, default=0), max(most, default=0)


def tell(groups: Groups) -> str:
    """How many lanes are used of how many."""
    used, most = _lanes(groups)
    return f"a GPU's PCIe link runs with {used} of {most} lanes"


SIGNATURE = Signature(
    name="gpu-link-narrow",
    stage=Stage.HARDWARE,
    severity=Severity.WARNING,
    title="a GPU's PCIe link runs with fewer lanes than it has",
    patterns=(r"^\W{0,40}Current {2,40}: (?P<used>\d{1,2})x\s*$", r"^\W{0,40}Max {2,40}: (?P<most>\d{1,2})x\s*$"),
    confirm="nvidia-smi --query-gpu=index,pcie.link.width.current,pcie.link.width.max --format=csv, under load",
    cure=(
        "move the card to a slot of 16 lanes or seat it anew, replace the riser, and look at how the BIOS splits the "
        "slot (bifurcation). Then compare LnkSta with LnkCap (lspci -vv)"
    ),
    cost="transfers of that GPU over PCIe take a multiple of their time",
    source="nvidia-smi -q: GPU Link Info",
    tell=tell,
    holds=lambda groups: 0 < 2 * _lanes(groups)[0] <= _lanes(groups)[1],
)
