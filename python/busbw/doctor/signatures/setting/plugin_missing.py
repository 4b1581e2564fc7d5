"""A plugin of NCCL that somebody named is not found."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="plugin-missing",
    stage=Stage.SETTING,
    severity=Severity.WARNING,
    title="a plugin that is set is not found: {what}",
    patterns=(
        r"(?:NET|PROFILER|TUNER|GIN|RMA|ENV)/Plugin: Could not find: "
        r"(?P<what>(?!(?:lib[nr]ccl-(?:profiler|tuner|net|gin|rma|env)\.so|none)\b)"
        r"[\w./+-]{2,160}\.so[\w.]{0,12}?)\.?"
        r"(?: Using internal \w{1,12} plugin\.?)? *$",
    ),
    confirm="env | grep PLUGIN; ls -l of the path that is named, in the container; ldd on it",
    cure=(
        "correct NCCL_NET_PLUGIN, NCCL_PROFILER_PLUGIN, NCCL_TUNER_PLUGIN or the like: a full path, or a name whose "
        "folder is in LD_LIBRARY_PATH, on every host. Unset it where no plugin is meant"
    ),
    cost="what the plugin should do is not done",
    source="NCCL src/plugin/plugin_open.cc",
)
