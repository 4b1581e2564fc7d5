"""The NVIDIA driver does not run."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="driver-not-loaded",
    stage=Stage.DRIVER,
    title="the NVIDIA driver is not loaded or cannot start a GPU on this host",
    patterns=(
        r"\bERROR_DRIVER_NOT_LOADED|NVML_ERROR_DRIVER_NOT_LOADED",
        r"Failed to query NVIDIA devices",
        r"Could not resolve Linux kernel version",
        # What package managers answer where the driver's container wants to build for a kernel.
        r"Unable to find a match: .{0,80}kernel-(?:headers|devel)"
        r"|No (?:package|match for argument):? kernel-(?:headers|devel)"
        r"|Unable to locate package linux-headers-|Couldn't find any package by (?:glob|regex) 'linux-headers-",
        r"is not supported by the NVIDIA \S+ driver release",
        r"(?<!NVRM: the )(?<!before the )NVIDIA kernel module .{0,60}(?:missing|not loaded|unloaded)",
        r"\bNo devices (?:were )?found\b",
        r"NVRM: (?:None of the NVIDIA devices were|Try unloading the conflicting|open of non-existent GPU)",
        r"rm_init_adapter failed",
        r"NVRM: .{0,40}(?:Cannot use this GPU|necessary power cables|No firmware image found"
        r"|not permitted for excluded)",
        r"nvidia: probe of \S{1,20} failed",
        r"ROCk module is NOT loaded|AMDSMI_STATUS_DRIVER_NOT_LOADED|amdgpu not found in modules",
        r"Failed to allocate primary buffer",
        r"CUDA unknown error",
        r"Could not find any nv files",
        r"nvidia-smi: command not found",
        r"libcuda\.so\S*: cannot open shared object",
        r"couldn't communicate with the NVIDIA driver",
        r"driver not loaded",
        r"NVIDIA Driver was not detected",
        r"RmInitAdapter failed",
        r"NVIDIA probe routine failed",
        r"nvidia-container-cli(?!: (?:command )?not found).{0,120}(?:error|not found)",
        r"could not insert .?nvidia(?![_-]peermem)|Key was rejected by service|unsigned module loading is restricted",
        r"modprobe.{0,40}nvidia.{0,60}(?:not found|failed|error)",
        r"/dev/nvidia(?:ctl|\d+).{0,60}(?:No such file|not found)",
        r"No supported GPU\(s\) detected",
        r"cuDriverGetVersion failed",
        r"Failed to find CUDA library",
        r"Failed to load nvml\.dll",
        r"driver is in use|Module nvidia\w* is in use",
        r"NVIDIA probe routine was not called",
        r"loaded and obtained ownership of",
        r"Driver/library version mismatch|nouveau.{0,60}(?:loaded|conflict|in use)",
        r"No NVIDIA (?:graphics adapter|GPU)\S* (?:probed|found)",
        r"cudaErrorInitializationError|CUDA_ERROR_NOT_INITIALIZED|cudaErrorUnknown"
        r"|CUDA_ERROR_UNKNOWN|CUDA driver is a stub library|cudaErrorStubLibrary",
        r"Unable to load the (?:kernel module 'nvidia|'nvidia\S* kernel module)",
        # The driver's source does not fit the kernel that it is built for.
        r"modpost: GPL-incompatible module nvidia|/nvidia-\d{3}[\w./-]{0,160}\.[ch]:\d{1,6}:\d{1,5}: error:",
        r"Unable to build the .{0,40}kernel module|dkms.{0,60}nvidia.{0,60}(?:fail|error|Bad return)",
    ),
    unless=(
        "peermem",
        "synstatus",
        "habana",
        "requirement error",
        "container error",
        "ldcache error",
        "mount error",
        "namespace error",
        "version mismatch",
        "unknown device",
    ),
    explains=(
        "gpu-not-visible",
        "nvml-missing",
    ),
    confirm="lsmod | grep nvidia; `dmesg | grep -i nvrm`; nvidia-smi on the host itself",
    cure=(
        "install or rebuild the driver for the running kernel (dkms), load it, restart the "
        "container toolkit; where only one GPU fails to start, reset or replace it"
    ),
    source="nvidia-smi and NVIDIA container toolkit",
)
