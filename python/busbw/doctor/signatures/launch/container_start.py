"""The container of a rank does not start."""

import re
from collections.abc import Mapping, Sequence

from busbw.base.secrets import shortened
from busbw.doctor.signature import Signature, Stage

_WRAPPERS = re.compile(
    r"^(?:.{0,120}(?:failed to create (?:task for container|shim task)|OCI runtime \w+ failed|runc \w+ failed"
    r"|unable to start container process|error during container init|rpc error: code = \w+ desc =): ?)+",
)
"""What Docker, containerd and runc put before the reason."""


def tell(groups: Sequence[Mapping[str, str]]) -> str:
    """The first reason that the runtime gives, if any."""
    reasons = [_WRAPPERS.sub("", each["what"]).strip() or each["what"].strip() for each in groups if "what" in each]
    return "the container does not start" + (f": {shortened(reasons[0], 120)}" if reasons else "")


SIGNATURE = Signature(
    name="container-start",
    stage=Stage.LAUNCH,
    title="the container does not start: image, runtime, mounts or hooks",
    patterns=(
        # enroot by itself.
        r"\[ERROR\] (?P<what>No such file or directory: \S{1,120}\.sqsh|URL \S{3,120} returned error code.{0,60}"
        r"|Could not (?:process JSON|parse authentication|retrieve digest|acquire rootfs).{0,80}"
        r"|Invalid image (?:reference|format).{0,60}|Command not found: (?:squashfuse|\w{2}squashfs|fuse-\w+))",
        # The runtime's own file of settings.
        r"(?P<what>unable to (?:setup runtime|configure the Docker daemon|load config)\b.{0,120})",
        r"containerd\b.{0,80}(?P<what>(?:failed to load TOML|invalid (?:plugin )?config|failed to (?:load|unmarshal))"
        r".{0,100})",
        r"(?P<what>unresolvable CDI devices.{0,80})",
        r"(?P<what>failed to (?:generate spec|inject (?:CDI )?devices).{0,100})",
        r"pyxis: .{0,12}\[ERROR\] (?P<what>.{5,160})",
        r"pyxis: (?:container start failed|couldn't|failed to|child \d+ failed|.{0,10}mkdir: cannot)",
        r"\benroot\b.{0,60}(?:\[ERROR\]|failed|command not found|unbound variable)",
        r"(?P<what>newuidmap\b.{0,120}|no sub[ug]id ranges found.{0,80}|cannot set up namespace using.{0,80})",
        r"spank: required plugin spank_pyxis",
        r"Error response from daemon: (?P<what>.{5,600})",
        r"OCI runtime (?:create|exec|start) failed: (?P<what>.{5,600})",
        r"pyxis: (?P<what>container exited too soon.{0,80})",
        r"(?P<what>Failed to pull image .{5,300})",
        r"Error: (?P<what>(?:secret|configmap) \"\S{1,100}\" not found"
        r"|couldn't find key \S{1,60} in (?:Secret|ConfigMap).{3,80})",
        r"(?P<what>Failed to create user namespace.{0,80}|No setuid installation found)",
        r"(?P<what>Cannot connect to the Docker daemon at \S{3,80})",
        r"(?P<what>permission denied while trying to connect to the docker)",
        r"(?P<what>Multi-Attach error for volume.{0,120}|failed to prepare dynamic resources:.{5,300})",
        r"unable to start container process",
        r"failed to create (?:shim )?task",
        r"\b(?P<what>RunContainerError|CreateContainer(?:Config)?Error|InvalidImageName|ErrImageNeverPull)\b",
        r"(?P<what>pull access denied|manifest (?:unknown|for \S{1,80} not found)|unauthorized: authentication)",
        r"(?:apptainer|singularity).{0,20}FATAL:? +(?P<what>.{5,120})",
        r"FATAL: {2,}(?P<what>(?:container|could not open image|while|Unable to).{5,120})",
        r"exec /\S{1,100}: (?P<what>exec format error)",
        r"nvidia-container-(?:cli|runtime)\S*: "
        r"(?P<what>(?:container|mount|ldcache|input|namespace|device|permission) error.{0,100})",
        r"(?P<what>MountVolume\.SetUp failed.{0,100})",
        r"\b(?P<what>ImagePullBackOff|ErrImagePull|FailedMount|FailedCreatePodSandBox|FailedAttachVolume)\b",
    ),
    unless=("shm", "could not select device driver"),
    confirm="start it alone on that node: srun -N1 --container-image=IMAGE true, docker run --rm IMAGE true",
    cure=(
        "mend what the line names: log in to the registry, install the runtime or hook (nvidia-container-toolkit), "
        "correct paths of mounts and programs. Else free the folder of images, or use an image of this processor"
    ),
    source="pyxis, enroot, runc and containerd's own words",
    explains=("slurm-resources", "file-system"),
    tell=tell,
)
