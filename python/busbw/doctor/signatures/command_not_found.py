"""A command or a file that a script calls is not there."""

from busbw.doctor.signature import Signature, Stage

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
    explains=("killed-by-launcher", "process-crashed", "slurm-error"),
)
