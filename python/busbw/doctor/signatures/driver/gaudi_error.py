"""Intel's Gaudi: its driver, its runtime (Synapse) or its collectives (HCCL) report an error."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage


def tell(groups: Sequence[Mapping[str, str]]) -> str:
    """The first status that has a name, if any."""
    named = [each["what"].strip() for each in groups if each.get("what")]
    return "a Gaudi accelerator cannot be used or is reset" + (f": {named[0]}" if named else "")


SIGNATURE = Signature(
    name="gaudi-error",
    stage=Stage.DRIVER,
    title="a Gaudi accelerator cannot be used or is reset",
    patterns=(
        r"habanalabs\b.{0,120}(?P<what>heartbeat failed|going to (?:hard-)?reset|resetting device|link down\b.{0,40}"
        r"|device is (?:disabled|in reset|not operational)|failed to .{3,60}|uncorrectable.{0,40}|double ECC.{0,40})",
        r"\bsynStatus\W{1,4}(?:synStatus )?\d+ \[(?P<what>[^\]]{3,60})\]",
        r"\b(?P<what>synDeviceAcquire\w*\b.{0,60}(?:fail|no available)\w*)",
        r"\[(?:SYN_\w+|HCL|HCCL|PT_BRIDGE|GC|PASS_MANAGER) {0,16}\]\[(?:error|critical) {0,4}\](?:\[[^\]]{1,40}\]){0,4}"
        r".{0,20}?(?P<what>\w.{5,100})",
        r"\bhccl(?:Remote|Internal|System|Network|LastSync|PortDown\w*)Error\b",
    ),
    confirm="hl-smi; `dmesg | grep habanalabs`; manage_network_ifs.sh --status",
    cure=(
        "give each process its own device (HABANA_VISIBLE_DEVICES, HLS_MODULE_ID) and end what still holds one; bring "
        "its ports up (manage_network_ifs.sh --up). Use one release of driver, firmware and SynapseAI; drain a host "
        "whose devices are reset again and again"
    ),
    source="the Linux kernel: drivers/accel/habanalabs; SynapseAI's and HCCL's own words",
    explains=("python-exception", "watchdog-timeout", "ib-port-down"),
    tell=tell,
)
