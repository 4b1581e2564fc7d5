"""A plugin made for another NCCL is refused."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="old-plugin",
    stage=Stage.SETTING,
    title="a plugin (network or tuner) was made for another version of NCCL, which does not use it",
    patterns=(
        r"ncclNetPlugin symbols? v\d+ and lower are not supported",
        r"plugin has incompatible version",
        # NCCL also looks for a tuner in the network's plugin, which need not have one.
        r"(?:TUNER|PROFILER|NET)/Plugin"
        r"(?!.{0,120}libnccl-net\S{0,40}: undefined symbol: nccl(?:Tuner|Profiler)Plugin_v\d)"
        r".{0,80}(?:undefined symbol|no supported symbol)",
        r"TUNER/Plugin.{0,60}(?:Failed to (?:load|open|initialize)|incompatible|dlopen error)",
        r"libnccl-tuner\S*.{0,60}(?:undefined symbol|cannot open|Could not find)",
        r"(?:tuner|profiler) plugin.{0,40}(?:version|incompatible|unsupported)",
        r"no ncclNetPlugin_v\d+ symbol found",
        r"NET/Plugin: (?:Failed to find|dlsym).{0,40}(?:any|suitable)",
        r"plugin v\d+ is (?:no longer|not) supported",
    ),
    confirm=("strings -a libnccl-net*.so | grep -o 'ncclNetPlugin_v[0-9]*' | sort -u; the same with ncclTunerPlugin_v"),
    cure=(
        "install the plugin of the release that fits this NCCL (aws-ofi-nccl, HPC-X, gIB), or unset "
        "NCCL_NET_PLUGIN and NCCL_TUNER_PLUGIN"
    ),
    cost="NCCL falls back to its own network or tuner, which is slower there",
    severity=Severity.WARNING,
    source="NCCL src/plugin/net.cc, src/plugin/tuner.cc",
)
