"""Memory sharing between hosts of an NVLink domain (IMEX) does not work."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="imex",
    stage=Stage.DRIVER,
    title=("the NVLink domain over hosts cannot be used: IMEX is not set up (service, channel or nodes_config)"),
    patterns=(
        r"\bImex session\b.{0,60}(?:fail|IN_USE|error)|[Ff]ailed to \w+ Imex session",
        r"\bMultinodeMemoryAllocation\w+",
        r"(?:[Ff]ail|[Ee]rror|[Uu]nable|[Cc]annot|[Cc]ould not).{0,60}fabric (?:mem\w* )?handle|nvidia-imex is running",
        r"Domain state: *(?:DEGRADED|DOWN|INITIALIZING)",
        r"Node #\d+ .{0,80}(?:UNAVAILABLE|INVALID|MISMATCH)",
        r"MNNVL.{0,80}(?:not working|is not supported)",
        r"\bIMEX\b.{0,80}(?:fail|error|not |missing|unavailable|timed out|timeout|down)",
        # Not what `ls` answers: a host of no such domain has none, and imex-channel tells of one that has.
        r"(?<!access '/dev/)(?<!access /dev/)(?<!ls /dev/)nvidia-caps-imex-channels",
        r"[Cc]ompute ?[Dd]omain\b.{0,60}(?:not ready|NotReady|timed? ?out|conflict)",
        r"cuMem(?:Import|Export)\w*.{0,60}(?:fail|error|not permitted|invalid)",
        r"MNNVL \(cliqueSize \d+\) is available but not supported",
        r"cuMemCreate.{0,20}(?:failed|returned)\D{0,12}80[01]\b",
        r"\[tid \d+\] (?:[Cc]onnection to node \d+ .{0,60}(?:lost|fail|timed)|failed to connect to (?:remote )?node)",
        r"\[tid \d+\] .{0,60}(?:authentication|handshake|TLS|certificate).{0,60}(?:fail|error|refused)",
        r"IMEX domain(?: state)?.{0,20}(?:DEGRADED|DOWN|INVALID)",
        r"\[tid \d+\] No matching network interface found",
        r"NOT_PERMITTED\].{0,60}cuMemCreate",
        r"nvidia-imex.{0,80}(?:exited|failed|error|mismatch)",
        r"IMEX channel.{0,60}(?:not|missing|fail)",
        r"cuMemCreate\(.{0,60}fabric.{0,80}operation not permitted",
        r"Failed to (?:get (?:new memory reference|export ref)|allocate memory reference)",
        r"Received import response from node id \d+ with failure",
        r"IMEX daemon status is -?\d+ \(not READY\)",
    ),
    unless=("persistence file",),
    explains=("nvls-multicast", "cuda-not-supported", "fabric-degraded", "cuda-ipc"),
    confirm=(
        "nvidia-imex-ctl -N; systemctl status nvidia-imex; ls /dev/nvidia-caps-imex-channels; "
        "nvidia-smi -q | grep -A6 Fabric"
    ),
    cure=(
        "start nvidia-imex with the same nodes_config.cfg on all hosts of the domain, give every "
        "container the same IMEX channel device; until then NCCL_MNNVL_ENABLE=0"
    ),
    versions="NCCL 2.21 and later",
    source="NCCL src/mnnvl.cc",
)
