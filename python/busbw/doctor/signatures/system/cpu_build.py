"""The framework that is installed cannot use GPUs."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="cpu-build",
    stage=Stage.SYSTEM,
    title="the framework that is installed here was built without GPU support, so that it counts processors as devices",
    patterns=(
        r"CUDA-enabled jaxlib is not installed",
        r"No OpKernel was registered to support Op '(?:Nccl|CollectiveReduce|CollectiveGather)\w{0,20}'",
        r"(?:TPU|GPU) may be present on this machine, but .{0,60}not installed",
        r"Unable to initialize backend '(?:cuda|rocm|gpu)'.{0,200}"
        r"(?:not in the list of known backends|no GPU plugin|not found)",
    ),
    explains=("python-exception", "rank-count", "xla-error"),
    confirm="python -c 'import jax; print(jax.devices(), jax.lib.__version__)'; pip list | grep -i -e jax -e cuda",
    cure=(
        "pip install -U 'jax[cuda12]' (or cuda13: jaxlib, plugin and PJRT of one version) in the image, "
        "and "
        "remove CPU builds of it that come first in PYTHONPATH"
    ),
    cost="the program runs on processors alone, or refuses its mesh",
    severity=Severity.WARNING,
    source="jax/_src/xla_bridge.py",
)
