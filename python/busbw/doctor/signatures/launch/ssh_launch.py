"""ssh to a host of the job fails."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="ssh-launch",
    stage=Stage.LAUNCH,
    title="ssh to a host of the job fails, so that its processes never start: {what}",
    patterns=(
        r"Failed to SSH|banner exchange",
        r"FORCE-TERMINATE AT .{0,120}plm_rsh",
        r"(?P<what>No authentication methods available|launcher '\w+' not installed)",
        r"SSH was not successful to the following hosts",
        r"\bsshd?\b: (?P<what>No such file|command not found|not found|not installed)",
        r"ssh: (?P<what>connect to host .{3,120})",
        r"(?P<what>not reachable via ssh)",
        # Of others the command ended so, which ssh had started.
        r"ssh exited with exit code (?P<what>255)\b",
        r"(?P<what>Host key verification failed)",
        r"(?P<what>Permission denied \((?:publickey|password|keyboard|gssapi).{0,60})",
        r"\bssh\b.{0,160}returned non-zero exit status (?P<what>255)",
        r"(?P<what>REMOTE HOST IDENTIFICATION HAS CHANGED)",
        r"(?P<what>Access denied by pam_slurm_adopt)",
        r"(?P<what>kex_exchange_identification: .{5,80})",
        r"pdsh@\S{1,60}: (?!\S{1,80} ssh exited with exit code (?!255\b))(?P<what>.{5,100})",
    ),
    explains=(
        "node-lost",
        "connection-refused",
        "mpi-launch",
        "killed-by-launcher",
    ),
    confirm="ssh -o BatchMode=yes HOST hostname from the host that launches, for each host",
    cure=(
        "give the launching user a key on all hosts (ssh-copy-id), start sshd in each container and name its port "
        "(~/.ssh/config, --mca plm_rsh_args '-p PORT'). Or launch with srun or torchrun, which need no ssh"
    ),
    source="OpenSSH; DeepSpeed launcher/runner.py; Open MPI plm_rsh",
)
