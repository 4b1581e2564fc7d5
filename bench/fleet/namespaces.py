"""A fabric of network namespaces on this machine: one for each node, veth links shaped by tc, a bridge for each leaf.

Everything lies in namespaces of its own, so that no interface, address or route of the machine is touched: a head,
where the bridges are and launchers run, and one namespace for each node. Bandwidth is shaped by tbf in both directions.
Delay is made by late_link.py, since netem is not in every kernel (CONFIG_NET_SCH_NETEM).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

PREFIX = "busbwfab"
LIMIT_S = 120
LATE_LINK = Path(__file__).with_name("late_link.py")
MPIRUN = "mpirun.openmpi"
AGENT = """\
#!/bin/sh
# Starts a command on a node, as ssh would: in its network namespace, under its name, where all names resolve.
node=$1; shift
if [ -e "$0.lost.$node" ]; then echo "connect to host $node: No route to host" >&2; exit 255; fi
exec nsenter --net=/run/netns/{prefix}-$node unshare --uts --mount sh -c \
  "mount --bind $0.hosts /etc/hosts; hostname $node; $*"
"""


class UnavailableError(Exception):
    """Why no fabric can be made here."""


def missing(programs: Sequence[str] = (MPIRUN,)) -> str:
    """Why a fabric of namespaces cannot be had here, or nothing. It is tried, not guessed."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program in ("ip", "tc", "unshare", *programs):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    try:
        with Namespaces(1):
            return ""
    except UnavailableError as problem:
        return str(problem)


class Namespaces:
    """Nodes n1..nN, in pods of `pod_nodes` (0: all on one bridge), each link of `mbit` Mbit/s each way."""

    def __init__(self, nodes: int, pod_nodes: int = 0, mbit: float = 40.0) -> None:
        self.nodes = tuple(f"n{number}" for number in range(1, nodes + 1))
        self.pod_of = {node: f"pod{at // pod_nodes}" for at, node in enumerate(self.nodes)} if pod_nodes else {}
        self.mbit = mbit
        self._pod_nodes = pod_nodes
        self._prefix = f"{PREFIX}{os.getpid()}"
        self._head = f"{self._prefix}-head"
        self._relays: list[subprocess.Popen[bytes]] = []
        self._folder = tempfile.TemporaryDirectory(prefix=PREFIX)
        self.agent = Path(self._folder.name) / "agent"

    def __enter__(self) -> Namespaces:
        _remove_leftovers()
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        self.agent.write_text(AGENT.format(prefix=self._prefix))
        self.agent.chmod(0o755)
        known = "".join(f"{self.address(node)} {node}\n" for node in self.nodes)
        self.agent.with_name(f"{self.agent.name}.hosts").write_text(f"127.0.0.1 localhost\n{known}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, one: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    # --- what can be slow --------------------------------------------------------------------------------------

    def shape(self, node: str, loss: float) -> None:
        """Make the link of a node slower by this share, or usual again with 0."""
        self._shape([(node, loss)])

    def shape_uplink(self, pod: str, share: float) -> None:
        """Give the uplink of a pod this many times a node's bandwidth; usual is as many as the pod has nodes."""
        for side in ("d", "u"):
            _batch(["tc", "-n", self._head], [self._tbf("replace", f"{side}{pod}", self.mbit * share)])

    def delay(self, node: str, milliseconds: float) -> None:
        """Hold each frame of a node's link for so long, in each direction; its bandwidth stays."""
        bridge = self.pod_of.get(node, "spine")
        _batch(["ip", "-n", self._head], [
            f"link set p{node} nomaster", f"link add q{node} type veth peer name r{node}",
            f"link set q{node} master {bridge} up", f"link set r{node} up promisc on", f"link set p{node} promisc on",
        ])  # fmt: skip
        words = [sys.executable, "-SE", str(LATE_LINK), f"p{node}", f"r{node}", str(milliseconds)]
        self._relays.append(subprocess.Popen(self.on_head(words)))

    def cut(self, node: str) -> None:
        """Pull the cable."""
        _batch(["ip", "-n", self._head], [f"link set p{node} down"])

    def lose(self, node: str) -> None:
        """From now on nothing can be started on a node."""
        self.agent.with_name(f"{self.agent.name}.lost.{node}").touch()

    # --- programs ----------------------------------------------------------------------------------------------

    def on_head(self, words: Sequence[str]) -> list[str]:
        """A command where launchers run."""
        return ["ip", "netns", "exec", self._head, *words]

    def on_node(self, node: str, words: Sequence[str]) -> list[str]:
        """A command on a node, under its name."""
        return [str(self.agent), node, *words]

    def pids(self, node: str) -> list[str]:
        """Processes on a node."""
        return _pids(self._space(node))

    def address(self, node: str) -> str:
        """Of a node; the head's is 10.77.0.1."""
        number = int(node[1:]) - 1
        return f"10.77.{1 + number // 200}.{1 + number % 200}"

    def mpi_environment(self) -> dict[str, str]:
        """What makes Open MPI start ranks in the namespaces and move data through their links."""
        return {
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_plm": "rsh",  # images for one machine say `isolated`
            "OMPI_MCA_plm_rsh_agent": str(self.agent),
            "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
            "OMPI_MCA_plm_rsh_num_concurrent": "256",
            "OMPI_MCA_btl": "self,tcp",
            "OMPI_MCA_btl_tcp_if_include": "10.77.0.0/16",
            # A whole sample lies in the kernel's buffers: it moves on while a rank waits for a processor.
            "OMPI_MCA_btl_tcp_sndbuf": "4194304",
            "OMPI_MCA_btl_tcp_rcvbuf": "4194304",
            "OMPI_MCA_oob_tcp_if_include": "10.77.0.0/16",
            "OMPI_MCA_mpi_yield_when_idle": "1",
        }

    # --- building ----------------------------------------------------------------------------------------------

    def _make(self) -> None:
        everyone = [self._head, *map(self._space, self.nodes)]
        _batch(["ip"], [f"netns add {space}" for space in everyone])
        bridges = ["spine", *dict.fromkeys(self.pod_of.values())]
        lines = ["link set lo up"]
        for bridge in bridges:
            lines += [f"link add {bridge} type bridge", f"link set {bridge} up"]
        for pod in bridges[1:]:
            lines += [f"link add u{pod} type veth peer name d{pod}",
                      f"link set u{pod} master {pod} up", f"link set d{pod} master spine up"]  # fmt: skip
        lines.append("addr add 10.77.0.1/16 dev spine")
        for node in self.nodes:
            mac = self._mac(node)
            lines += [f"link add p{node} type veth peer name eth0 address {mac} netns {self._space(node)}",
                      f"link set p{node} master {self.pod_of.get(node, 'spine')} up"]  # fmt: skip
        _batch(["ip", "-n", self._head], lines)
        for node in self.nodes:
            _batch(["ip", "-n", self._space(node)],
                   ["link set lo up", f"addr add {self.address(node)}/16 dev eth0", "link set eth0 up"])  # fmt: skip
        self._introduce()
        for space in everyone:
            # A model of congestion (bbr) probes for bandwidth by turns; what is measured shall not breathe with it.
            _run(["ip", "netns", "exec", space, "sysctl", "-qw", "net.ipv4.tcp_congestion_control=reno"])
        self._shape([(node, 0.0) for node in self.nodes])
        for pod in bridges[1:]:
            self.shape_uplink(pod, float(self._pod_nodes))

    def _introduce(self) -> None:
        """Tell everyone the addresses of the nodes.

        The kernel has one table of neighbours for all namespaces, of 1,024 entries (net.ipv4.neigh.default.gc_thresh3):
        with 128 nodes it overflows and connections fail. Permanent entries do not count, and nobody must ask for them.
        """
        known = [
            (node, f"neigh add {self.address(node)} lladdr {self._mac(node)} nud permanent dev") for node in self.nodes
        ]
        _batch(["ip", "-n", self._head], [f"{line} spine" for _, line in known])
        for node in self.nodes:
            _batch(["ip", "-n", self._space(node)], [f"{line} eth0" for other, line in known if other != node])

    def _mac(self, node: str) -> str:
        number = int(node[1:])
        return f"02:00:00:00:{number >> 8:02x}:{number & 255:02x}"

    def _shape(self, losses: Iterable[tuple[str, float]]) -> None:
        there = []
        for node, loss in losses:
            rate = self.mbit * (1 - loss)
            there.append(self._tbf("replace", f"p{node}", rate))
            _batch(["tc", "-n", self._space(node)], [self._tbf("replace", "eth0", rate)])
        _batch(["tc", "-n", self._head], there)

    def _tbf(self, verb: str, interface: str, mbit: float) -> str:
        # A burst of 8 KB is 1.6 ms at 40 Mbit/s; the queue is long enough that nothing is dropped.
        return f"qdisc {verb} dev {interface} root tbf rate {max(8, round(mbit * 1000))}kbit burst 8kb limit 16mb"

    def _space(self, node: str) -> str:
        return f"{self._prefix}-{node}"

    def _remove(self) -> None:
        for relay in self._relays:
            relay.kill()
            relay.wait()
        _remove_spaces(self._prefix + "-")
        self._folder.cleanup()


def _batch(words: Sequence[str], lines: Sequence[str]) -> None:
    _run([*words, "-batch", "-"], "".join(f"{line}\n" for line in lines))


def _run(words: Sequence[str], text: str = "") -> None:
    done = subprocess.run(words, input=text, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()
        raise UnavailableError(f"`{' '.join(words[:6])}` failed: {said[0][:200]}")


def _spaces() -> list[str]:
    with suppress(OSError):
        return [path.name for path in Path("/run/netns").iterdir()]
    return []


def _remove_spaces(prefix: str) -> None:
    mine = [space for space in _spaces() if space.startswith(prefix)]
    for sent in (signal.SIGTERM, signal.SIGKILL):
        pids = [int(pid) for space in mine for pid in _pids(space)]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, sent)
        if pids:
            time.sleep(0.2)
    for space in mine:
        subprocess.run(["ip", "netns", "del", space], capture_output=True, timeout=LIMIT_S, check=False)


def _pids(space: str) -> list[str]:
    found = subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    return found.stdout.split()


def _remove_leftovers() -> None:
    """Of a fabric whose process was killed."""
    for space in _spaces():
        number = space.removeprefix(PREFIX).partition("-")[0]
        if space.startswith(PREFIX) and number.isdigit() and not Path(f"/proc/{number}").exists():
            _remove_spaces(space)
