"""Slurm's own daemons over a fabric of namespaces: slurmctld on the head, one slurmd in each node."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from namespaces import Namespaces, UnavailableError

PROGRAMS = ("slurmctld", "slurmd", "munged", "srun", "salloc", "sinfo")
START_S = 60.0
CONFIGURATION = """\
ClusterName=busbwfab
SlurmctldHost=head(10.77.0.1)
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
TmpFS={folder}/tmp.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_min_interval=100000,batch_sched_delay=0
ReturnToService=2
SlurmdTimeout=10
KillWait=3
MpiDefault=none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
{nodes}
PartitionName=main Nodes={names} Default=YES State=UP
"""


class Slurm:
    """The daemons while the block lasts; `environment` reaches them from the head."""

    def __init__(self, fabric: Namespaces) -> None:
        self._fabric = fabric
        self._temporary = tempfile.TemporaryDirectory(prefix="busbwfab")
        self._folder = Path(self._temporary.name)
        self.environment = {**os.environ, "SLURM_CONF": str(self._folder / "slurm.conf")}

    def __enter__(self) -> Slurm:
        folder = self._folder
        folder.chmod(0o755)
        (folder / "state").mkdir()
        for node in self._fabric.nodes:
            for kind in ("spool", "tmp"):  # PMIx keeps files there, which every node would call the same
                (folder / f"{kind}.{node}").mkdir()
        key = folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(os.urandom(1024))
        lines = (f"NodeName={node} NodeHostname={node} NodeAddr={self._fabric.address(node)} CPUs=2"
                 for node in self._fabric.nodes)  # fmt: skip
        text = CONFIGURATION.format(folder=folder, nodes="\n".join(lines), names=",".join(self._fabric.nodes))
        (folder / "slurm.conf").write_text(text)
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, one: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def on_head(self, words: list[str]) -> list[str]:
        """A command under the name that the daemons know."""
        return self._fabric.on_node("head", words)

    def kill_node(self, node: str) -> None:
        """End the slurmd of a node at once, as a crash of the node would."""
        os.kill(int((self._folder / f"slurmd.{node}.pid").read_text()), signal.SIGKILL)
        (self._folder / f"slurmd.{node}.pid").unlink()

    def _start(self) -> None:
        folder = self._folder
        self._run(["munged", "--force", "--num-threads=2", f"--key-file={folder}/munge.key",
                   f"--socket={folder}/munge.socket", f"--pid-file={folder}/munged.pid",
                   f"--log-file={folder}/munged.log", f"--seed-file={folder}/munge.seed"])  # fmt: skip
        self._run(self.on_head(["slurmctld", "-c"]))
        for node in self._fabric.nodes:
            self._run(self._fabric.on_node(node, ["slurmd", "-N", node]))
        end = time.monotonic() + START_S
        while self._idle() < len(self._fabric.nodes):
            if time.monotonic() > end:
                raise UnavailableError(f"of {len(self._fabric.nodes)} slurmd only {self._idle()} were idle after "
                                       f"{START_S:g} s")  # fmt: skip
            time.sleep(0.2)

    def _idle(self) -> int:
        words = self.on_head(["sinfo", "-h", "-p", "main", "-t", "idle", "-o", "%D"])
        said = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=30, check=False)
        return sum(int(word) for word in said.stdout.split() if word.isdigit())

    def _run(self, words: list[str]) -> None:
        with (self._folder / "start.log").open("ab") as log:
            code = subprocess.run(
                words, env=self.environment, stdout=log, stderr=log, timeout=60, check=False
            ).returncode
        if code:
            logs = [self._folder / "start.log", *self._folder.glob("slurm*.log")]
            tail = [line for log in logs if log.exists() for line in log.read_text(errors="replace").splitlines()[-2:]]
            raise UnavailableError(f"`{words[-1]}` did not start: {' '.join(tail)[:600]}")

    def _stop(self) -> None:
        for file in sorted(self._folder.glob("*.pid"), reverse=True):
            with suppress(OSError, ValueError):
                os.kill(int(file.read_text()), signal.SIGTERM)
        end = time.monotonic() + 10
        while time.monotonic() < end and any(self._folder.glob("*.pid")):
            time.sleep(0.1)
        self._temporary.cleanup()
