"""What the numbers of Xid errors mean, after NVIDIA's public catalogue (docs.nvidia.com/deploy/xid-errors)."""

from __future__ import annotations

from collections.abc import Mapping

RESTART = "restart the program"
RESET = "reset the GPU, or reboot"
CHECK = "check the board with NVIDIA's field diagnostic"
IGNORE = "nothing is lost"

_MEANINGS: Mapping[str, tuple[str, str]] = {
    "1-7 10 11 15 17 25 28 29 35": ("invalid or corrupted commands", RESTART),
    "8 43": ("the GPU stopped processing a program's work", RESTART),
    "14 23 87": ("a message of the driver about itself", IGNORE),
    "46": ("the GPU stopped processing", RESET),
    "9": ("the driver could not program the GPU", RESET),
    "12": ("the driver could not handle an exception of the GPU", RESET),
    "13": ("an exception of the graphics or compute engine", RESTART),
    "16 19 56 81 111-118": ("an error of the display engine", IGNORE),
    "18": ("bus mastering is off in the PCI configuration", RESET),
    "20-22 27 34 36 42 47 60 65": ("an exception of the video processor", RESTART),
    "24 30": ("a semaphore of the GPU timed out or cannot be accessed", RESTART),
    "26": ("the frame buffer timed out", RESET),
    "31": ("a page fault of GPU memory", RESTART),
    "32": ("invalid or corrupted push buffer", "check the PCIe link, then restart the program"),
    "33 59 61 62 169": ("the GPU's micro-controller warned or halted", RESET),
    "37 38": ("an error of the driver's firmware", RESET),
    "39-41 70-72 75-77 85 126-135": ("an exception of a copy engine", RESTART),
    "44": ("a fault while the GPU changed its context", RESTART),
    "45": ("channels were removed after an earlier error", "look at the error before it"),
    "48": ("a double bit error of memory", RESET),
    "54": ("auxiliary power is not connected to the board", "connect the power cable"),
    "57 58": ("the interface to video memory is unstable", CHECK),
    "63": ("a row of memory was recorded for remapping", RESET),
    "64": ("remapping a row of memory failed", CHECK),
    "66 67": ("the driver made an illegal access", RESTART),
    "68 83 84 88 89 96-98": ("an exception of a video decoder", RESTART),
    "69": ("a program used a class of the GPU wrongly", RESTART),
    "73 142": ("an exception of a video encoder", RESTART),
    "74": ("an error of an NVLink", "check the link's errors, then reset the GPU"),
    "78": ("a vGPU could not start", "check the vGPU licence and versions"),
    "79": ("the GPU fell off the bus", "reboot; check PCIe, power and seating"),
    "80": ("corrupted data was sent to the GPU", "check the PCIe link"),
    "82 99-105": ("an exception of a JPEG decoder", RESTART),
    "106 107": ("a test message of the board's management", IGNORE),
    "86 139": ("an exception of the optical flow engine", RESTART),
    "90 91": ("an error of the GPU's cache", RESET),
    "92": ("many single bit errors of memory", CHECK),
    "93": ("the InfoROM is written too often", IGNORE),
    "94": ("an error of memory that stayed within one program", RESTART),
    "95": ("an error of memory that other programs may see too", RESET),
    "108": ("an address from another GPU over NVLink could not be translated", RESTART),
    "109": ("switching between contexts timed out", RESET),
    "110": ("a security fault", RESET),
    "119 120": ("the GPU's system processor (GSP) does not answer or failed", RESET),
    "121": ("an error of the link between GPU and Grace (C2C) that was corrected; see whether it grows", RESET),
    "122-124": ("the board's flash memory cannot be read or written", CHECK),
    "125": ("the file system of the InfoROM failed", CHECK),
    "136 155": ("an NVLink could not be trained", RESET),
    "137": ("a program accessed NVLink memory without right", RESTART),
    "138 152 153": ("an error of the deep learning accelerator", RESTART),
    "141": ("an error of CUDA's fast path", RESTART),
    "140": ("an error of memory that was not corrected", RESET),
    "143": ("the GPU could not be initialised", RESET),
    "144-150": ("an error of an NVLink of the fifth generation", "see the severity in the line; reset the GPU"),
    "151": ("encryption keys could not be changed", RESET),
    "154": ("the action that mends the GPU has changed", "do what the line names: reset the GPU, or reboot"),
    "156 160": ("part of the GPU was retired", RESET),
    "157 161": ("part of the GPU could not be retired", CHECK),
    "158 167": ("the GPU or its PCIe link timed out fatally", RESET),
    "159": ("an error of the coherent link to the processor", RESET),
    "173": ("the link between GPU and Grace (C2C) failed", RESET),
    "174": ("channels were removed", "look at the error before it"),
    "176": ("the PCIe link made too many errors that were corrected", "reseat the GPU, check its PCIe link"),
    "175": ("an error of the memory subsystem", RESET),
    "162-165": ("power smoothing was switched on, off or is near its end", IGNORE),
    "166 170": ("traffic of confidential computing came before its setup", RESET),
    "168": ("errors in a protected region of memory", RESET),
    "171 172": ("more about an error of memory (Xid 48)", RESET),
}
FABRIC = "reset all GPUs and NVSwitches together, or reboot"
_SWITCH: Mapping[str, tuple[str, str]] = {
    "10001 10002": ("an access to the switch's registers failed or timed out", FABRIC),
    "10003": ("an interrupt that nobody handled", FABRIC),
    "10004 10005": ("the switch is or was too hot", "see to the cooling of that tray"),
    "11001 11009 11013 11018-11020 12001 12002 12022 12024-12028 12030-12032": (
        "packets were lost or damaged at a port",
        FABRIC,
    ),
    "11004": (
        "a GPU sent where its partition does not allow it",
        "check the fabric manager's partitions, restart the guest",
    ),
    "11012 11021-11023 12021 12023 15008 15011 19049 19055 19057 19059 19062 19065 19068 19071 24001-24003": (
        "a single bit error that was corrected",
        IGNORE,
    ),
    "12020": ("packets came out of their order", FABRIC),
    "14017 24007": (
        "a request got no answer in time: a GPU or link on the way failed first",
        "look at Xids of the GPUs",
    ),
    "15001 15006 15009 15010 15012 15013": ("the switch's routing failed", FABRIC),
    "19047 19048 19054 19056 19058 19060 19061 19063 19064 19066 19067 19069 19070 24004-24006": (
        "a double bit error of the switch's memory",
        FABRIC,
    ),
    "19084": ("a heartbeat timed out", FABRIC),
    "20001 20009": ("a link sent packets again", IGNORE),
    "20012": ("a link broke or is inconsistent", "see whether somebody shut a GPU down; check the link's connectors"),
    "20034 22012": ("a link went down or could not come up", "check the link's connectors; reset GPUs and NVSwitches"),
    "22003 22011": ("the switch's micro-controller (Minion) halted", FABRIC),
    "22013": ("a link asks for its data layer", IGNORE),
    "23001-23017": ("buffers or credits of the switch overflowed", FABRIC),
}


def _spread(table: Mapping[str, tuple[str, str]]) -> dict[int, tuple[str, str]]:
    numbers: dict[int, tuple[str, str]] = {}
    for keys, value in table.items():
        for key in keys.split():
            first, _, last = key.partition("-")
            numbers.update(dict.fromkeys(range(int(first), int(last or first) + 1), value))
    return numbers


XIDS: Mapping[int, tuple[str, str]] = _spread(_MEANINGS)
"""(what happened, what NVIDIA asks for) for each number; numbers that are not there are not public."""


SXIDS: Mapping[int, tuple[str, str]] = _spread(_SWITCH)
"""The same for those of NVSwitches, after the Fabric Manager user guide."""
HARMLESS_SXIDS = "|".join(str(number) for number, (_, action) in sorted(SXIDS.items()) if action == IGNORE)


def told_of_switch(number: str) -> str:
    """The SXid with its meaning and action."""
    known = SXIDS.get(int(number)) if number.isdecimal() and len(number) < 7 else None
    return f"SXid {number}: {known[0]}; {known[1]}" if known else f"SXid {number}"


def told(number: str) -> str:
    """The number with its meaning and its action; the number alone where it is not public."""
    known = XIDS.get(int(number)) if number.isdecimal() and len(number) < 6 else None
    return f"Xid {number}: {known[0]}; {known[1]}" if known else f"Xid {number}"


_OWN = "13|31|43|45|48|61|62|63|64|68|69|72|74|79|92|94|95|109|119|120|123|136|137|140|144|145|146|147|148|149|150"
_OWN += "|151|152|153|155|156|171|172"
"""Numbers of which other signatures speak."""
HARMLESS = "|".join(str(number) for number, (_, action) in sorted(XIDS.items()) if action == IGNORE)


def patterns(numbers: str) -> tuple[str, ...]:
    """How the kernel, agents, metrics and people write one of these numbers (`8|43`)."""
    return _forms(rf"(?P<xid>{numbers})\b")


def other_patterns() -> tuple[str, ...]:
    """The same for all numbers of which no other signature speaks."""
    return _forms(rf"(?!(?:{_OWN}|{HARMLESS})\b)(?P<xid>[1-9]\d{{0,2}})\b")


def _forms(number: str) -> tuple[str, ...]:
    return (
        rf"Xid.{{0,60}}?\): {number}",
        # How often something happened is no number of an Xid.
        rf"\bXid(?: errors?| codes?| events?| numbers?)?[ :#=]{{1,3}}{number}(?!\W{{0,2}}(?:errors?|times|events?)\b)",
        rf"XID_ERRORS\{{[^}}]{{0,400}}\}} {number}",
        # NVML's events in Kubernetes' device plugin, and the condition of a node on Google's machines.
        rf"EventType:8 EventData:{number}",
        rf"XidCriticalError\s+True\b.{{0,300}}\{{\W?{number}",
    )
