"""An NVLink domain that is not whole."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage

_STATES = (
    (0, "its bandwidth is degraded"),
    (2, "its routes are being recovered"),
    (4, "its routes are unhealthy"),
    (6, "it recovers from an access timeout"),
)
"""Where the two bits of each state begin: 0 says that it is not supported, 1 that it is so, 2 that it is not."""
_TRUE, _RESET = 1, 3
_ROUTES = 4
"""Of routes 3 says, too, that they are unhealthy, and that a GPU has to be reset for it."""
_CONFIGURATION = 8
_CONFIGURATIONS = {
    2: "the system's GUID is wrong",
    3: "the chassis has a wrong serial number",
    4: "it belongs to no partition",
    5: "too few NVLinks are up",
    6: "the GPU's firmware does not fit",
    7: "the tray is in a wrong place",
    8: "the GPU's state is invalid",
}
"""By its number of four bits, what is wrong with the configuration; 1 says that nothing is."""
_RIGHT = 1


def states_of(mask: int) -> tuple[str, ...]:
    """What a healthMask of NVML says is wrong; nothing of one that is healthy, or tells nothing."""
    found = [
        f"{said}, and the GPU has to be reset" if at == _ROUTES and mask >> at & 3 == _RESET else said
        for at, said in _STATES
        if mask >> at & 3 == _TRUE or (at == _ROUTES and mask >> at & 3 == _RESET)
    ]
    if (number := mask >> _CONFIGURATION & 0xF) > _RIGHT:
        found.append(_CONFIGURATIONS.get(number, f"its configuration is wrong ({number})"))
    return tuple(found)


def _tell(groups: Sequence[Mapping[str, str]]) -> str:
    masks = dict.fromkeys(each["mask"] for each in groups if "mask" in each)
    states = dict.fromkeys(state for mask in masks for state in states_of(int(mask, 16)))
    states |= dict.fromkeys(f"{each['what'].strip()}: {each['is'].strip()}" for each in groups if "what" in each)
    by = f" (healthMask {', '.join(list(masks)[:4])})" if masks else ""
    return f"the NVLink domain (fabric) of a GPU is degraded{by}" + (f": {'; '.join(states)}" if states else "")


SIGNATURE = Signature(
    name="fabric-degraded",
    stage=Stage.HARDWARE,
    title="the NVLink domain (fabric) of a GPU is degraded: what its healthMask says",
    patterns=(
        # Two bits each, from the lowest on; above them a number of four bits, of which 1 says that nothing is wrong.
        r"healthMask (?P<mask>0x[0-9a-f]{0,8}(?:[145679d]|[13-79bdf][0-9a-f]|[2-9a-f][0-9a-f]{2}))\b",
        r"Fabric.{0,60}Degraded Bandwidth *: *True",
        r"\b(?P<what>Route (?:Unhealthy|Recovery in progress)|Access Timeout Recovery) *: *(?P<is>True)\b",
        r"^\s{4,24}(?P<what>Bandwidth) {2,40}: (?P<is>Degraded)\s*$",
        r"^\s{4,24}(?P<what>Summary) {2,40}: (?P<is>Unhealthy|Limited Capacity)\s*$",
        r"^\s{4,24}(?P<what>Incorrect Configuration) {2,40}: (?P<is>(?!None|N/A|Not Supported)\w[\w -]{2,40}?)\s*$",
        r"\bHealth\b[^\"\n]{0,40}: Unhealthy",
    ),
    tell=_tell,
    confirm="nvidia-smi -q | grep -A12 Fabric; the NVLink management software's (NMX) events",
    cure="drain the host; the domain's operator reseats or replaces the tray, cable or switch",
    source="nvml.h: NVML_GPU_FABRIC_HEALTH_MASK (two bits each, 1 is true; then the configuration, 1 is right)",
)
