"""A command or a file that a script calls is not there."""

import re
from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage

_TOOLS = re.compile(
    r"(?:\S{0,120}/)?(?:ofed_info|fi_info|fi_pingpong|ibstat(?:us)?|ibv?_\w+|ibdev2netdev|ibhosts|iblinkinfo|ibping|ibnet\w+|ibdiag\w+|show_gids|mlx\w+|mst|mget_temp|lspci|ethtool|ip|ifconfig|netstat|ss|ping"
    r"|nvidia-smi|nvtop|htop|dcgmi|rocm-smi|amd-smi|lstopo\w*|numactl|lsof|fuser|strace|gdb|py-spy|perf|dmesg|ipmitool"
    r"|perfquery|opensm|sminfo|rdma|lsmod|dmidecode|nslookup|dig|tree|vim?|nano|less|iostat|sar|tcpdump|traceroute)"
)
"""What people look for a fault with: that a host lacks it ended no job."""


def is_looked_for(groups: Sequence[Mapping[str, str]], lines: int) -> bool:
    """Whether nothing is missing but tools to look with."""
    return bool(groups) and all(_TOOLS.fullmatch(each.get("what", "")) for each in groups)


SIGNATURE = Signature(
    name="command-not-found",
    stage=Stage.LAUNCH,
    title="a command or file that the job calls is not there, or may not be run: {what}",
    patterns=(
        r"\b(?:ba|da|z|k)?sh: (?:line )?(?:\d+: )?(?P<what>\S{1,120}): "
        r"(?:command not found|No such file|not found|Permission denied)",
        # "line" in the language of the shell.
        r"[:\uff1a] ?[^\W\d]{1,8} ?\d+ ?[:\uff1a] ?(?P<what>[^\s:\uff1a]{1,120}) ?[:\uff1a] ?"
        r"(?:command not found|No such file|cannot execute|Permission denied)",
        r"(?P<what>[\w./-]{1,120}): bad interpreter: ",
        r"\benv: .(?P<what>[\w./-]{1,80}).: (?:No such file|Permission denied)",
        r"\bexec(?:ve|vp)?\b\W{1,6}(?P<what>[\w./-]{1,80})\W{1,4}"
        r"(?:executable file not found|No such file|stat .{1,80}no such file)",
        r"can't open file '(?P<what>[^']{1,120})'",
    ),
    unless=("oci runtime", "nvidia-smi", "orted", "sshd", "kubexec", "enroot", "nvidia-container"),
    confirm="`command -v NAME` and ls of the path in the same container and step, on every node",
    cure="install it in the image, correct PATH or the path, make the file executable, mount the folder on every node",
    source="the shell's and exec's own words",
    light=is_looked_for,
    explains=("killed-by-launcher", "process-crashed", "slurm-error"),
)
