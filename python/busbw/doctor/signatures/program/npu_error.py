"""Huawei's Ascend: its runtime or its collectives (HCCL) report an error by number."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage


def tell(groups: Sequence[Mapping[str, str]]) -> str:
    """The first number and its sentence, if any."""
    named = [each["what"].strip() for each in groups if each.get("what")]
    return "Ascend's runtime or collectives (HCCL) failed" + (f": {named[0]}" if named else "")


SIGNATURE = Signature(
    name="npu-error",
    stage=Stage.PROGRAM,
    title="Ascend's runtime or collectives (HCCL) failed",
    patterns=(
        r"NPU warning, error code is (?P<what>\d{3,8})",
        r"\bE[A-Z]\d{4}: \[PID: \d+\] (?:[\d:.-]{8,32} )?(?P<what>\w.{5,140})",
        r"\bE[A-Z]\d{4}: .{0,40}?(?P<what>(?:Stream synchronize timeout|Getting socket times out"
        r"|Notify register times out|Transport init error"
        r"|Inner Error!).{0,100})",
        r"(?P<what>hccl \w+ task timeout\b.{0,60})",
        r"\bdcmi mod\w{2,4} initialize failed",
        r"\bNPU function error: .{2,80}error code is \d",
        r"\bE[A-Z]\d{4}: \d{4}-[\d:.-]{8,32} (?P<what>(?:Failed to |The arguments |An error |Getting ).{5,140})",
        r"ACL stream synchronize failed",
        r"\bERR\d{5} DIST\b",
        r"\bhccl api failed|\bHccl\w{3,40}\W.{0,40}(?:failed|error code)",
        r"\bHCCL_E_(?P<what>[A-Z_]{3,30})\b",
    ),
    confirm="grep -rn -e 'error cqe' -e EI0 ~/ascend/log on every host; hccn_tool -i N -link -g; npu-smi info",
    cure=(
        "look for the rank whose log has an earlier error, or none; check links and addresses of the NPUs (hccn_tool: "
        "link, ip, ping, tls alike on all). Where ranks only start late, raise HCCL_CONNECT_TIMEOUT or "
        "HCCL_EXEC_TIMEOUT"
    ),
    source="the error codes of Ascend's CANN (EI0002 notify, EI0006 socket, EI0009 transport)",
    explains=("python-exception", "watchdog-timeout", "store-lost"),
    tell=tell,
)
