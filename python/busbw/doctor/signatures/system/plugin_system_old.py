"""A plugin of NCCL needs a newer C library than the container has."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="plugin-system-old",
    stage=Stage.SYSTEM,
    severity=Severity.WARNING,
    title="the image's system is too old for the plugin {file}: its C library has no {version}, which that needs",
    patterns=(
        r"version [`'](?P<version>GLIBC_[\d.]{1,10})' not found \(required by "
        r"\S{0,200}?(?P<file>lib[nr]ccl-[\w.-]{1,60}|libnccl_\w{1,40}plugin[\w.-]{0,20})\)",
    ),
    explains=("network-not-found", "plugin-not-loaded", "net-plugin-not-found", "old-plugin", "undefined-symbol"),
    between_nodes=True,
    confirm="ldd --version in the image; ldd on the plugin's file in the same container",
    cure=(
        "build the image on a newer base (GLIBC_2.32 to 2.35: Ubuntu 22.04; up to 2.39: 24.04), or take the plugin's "
        "build for this system. NCCL_NET=Socket, or no NCCL_NET, goes on without the plugin, and slower"
    ),
    cost="NCCL does without that network, or fails where NCCL_NET asks for it",
    source="ld.so's own words; NCCL src/plugin/plugin_open.cc",
)
