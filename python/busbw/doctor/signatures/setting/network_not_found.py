"""NCCL_NET names a network that is not there."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="network-not-found",
    stage=Stage.SETTING,
    title=("the network that NCCL_NET or the communicator asks for is not available: its plugin was not loaded"),
    patterns=(
        r"No network devices that support GDAKI",
        r"NET/OFI.{0,120}(?:No eligible|could not find|Failed to init|Failing init|Unable to find)",
        r"Error: network (?!IB )\S{0,60} ?not found",
        r"Failed to initialize any NET plugin",
        r"aws-ofi-nccl.{0,80}(?:fail|error)",
        # Not what a provider of libfabric says while it runs, nor a file of that name.
        r"libfabric(?!:\d+:\d+:|_).{0,60}(?:fail|not found|No data available)",
        r"fi_getinfo.{0,60}(?:fail|No data|\(-61\))",
        # Where NCCL goes on without it, it is plugin-not-loaded.
        r"NET/Plugin.{0,60}(?:Could not find|Failed to load|dlopen|No plugin found).{0,40}"
        r"lib[nr]ccl-net-[\w.-]{1,80}\.so(?!.{0,160}Using internal)",
        r"libnccl-net-\S+: cannot open shared object",
        r"libnccl-net\S*.{0,40}undefined symbol(?!: nccl(?:Tuner|Profiler|Net|CollNet)Plugin_v\d)",
        r"(?<![\d.])(?<!\d )\bgIB\b.{0,60}(?:fail|error)",
        r"NET/Plugin: Failed to initialize \S{1,40} plugin",
    ),
    unless=("hmem",),
    explains=("efa-error",),
    confirm="env | grep -e NCCL_NET -e FI_; ldd libnccl-net*.so; fi_info -p efa on EFA machines",
    cure=(
        "put the plugin's folder into LD_LIBRARY_PATH on every node, give the container its devices "
        "(EFA: /dev/infiniband), match plugin and NCCL versions; or unset NCCL_NET"
    ),
    source="NCCL src/plugin/net.cc; aws-ofi-nccl",
)
