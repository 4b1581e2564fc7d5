"""RDMA devices that exist but cannot be opened."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="ib-devices-missing",
    stage=Stage.SYSTEM,
    title=("the RDMA devices cannot be opened: /dev/infiniband, its rights or its driver are missing"),
    patterns=(
        r"^\W{0,3}Failed to open device\W{0,3}$",
        r"Rank \d+ on \S+ could not open \S+ \(",
        r"channels on the extra devices of other ranks have no peer",
        r"No matched device found",
        r"missing RDMA device spec for device \S{1,40}, RDMA device \S{1,20} not found",
        # Modules of one release of OFED beside those of another.
        r"\b(?:mlx[45]_\w+|(?:ib|rdma)_\w+): (?:disagrees about version of symbol|Unknown symbol)",
        # The driver's container of the network operator.
        r"Module (?P<module>mlx[45]_\w{2,20}|ib_\w{2,20}|rdma_\w{2,20}) is in use by: (?P<by>[\w ,]{2,80})",
        r"Failed to reload (?:MOFED|OFED|DOCA).{0,20} driver",
        r"Error: network IB not found",
        r"NET/IB : Unable to query (?:device|port)",
        r"ibv_query_(?:device|port).{0,60}Operation not permitted",
        r"IB device \S{1,40} not found",
        r"network device '\S+' is not available",
        # What gives a container the devices, or lists them, tells of no fault: commands, manifests, listings' heads.
        r"^(?!.{0,400}(?:--device|\bdocker run|\bpodman run|-v /dev|\bls (?:-\w{1,8} )?/))"
        r"(?!.{0,400}(?:/dev/infiniband rwm\b|(?:host|mount)Path|^\W{0,40}path: |/dev/infiniband from \S{1,60} \(r))"
        r"(?!(?:\S{1,60}: )?/dev/infiniband/?:\s{0,4}$)"
        # Names alone, as ls prints them, are of devices that are there.
        r"(?!(?:\S{1,60}: )?(?:/dev/infiniband(?:/[\w/-]{2,40})?[ \t]{0,8}){1,32}$)"
        # So is one that everybody may open, or of which a check says that it is well.
        r"(?!.{0,40}\bc(?:rw-){3})"
        r"(?!(?!.{0,400}\b(?:[Nn]ot?|NOT?|[Mm]issing|MISSING|[Cc]annot|[Ff]ail\w*|FAIL\w*|denied|without)\b)"
        r".{0,400}\b(?:OK|ok|present|exists|found|PASS\w*|passed)\b)"
        r"(?!.{0,400}(?:PathOnHost|PathInContainer|CgroupPermissions))"
        r".{0,600}/dev/infiniband",
        r"NET/IB : Unable to open device",
        r"can't open UMAD port|can't open MAD port|ibpanic: .{0,40}stat of IB device .{0,60} failed",
        r"couldn't open uverbs",
        r"libibverbs: Warning: no userspace device-specific driver",
        r"couldn't load driver|Driver \w+ does not support the kernel ABI",
        r"ibv_open_device failed",
        r"ibv_get_device_list failed",
        r"no RDMA devices? (?:found|available)",
        r"Failed to get IB devices list",
        r"uverbs\d+.{0,60}(?:Permission denied|No such)",
        r"Couldn't get (?:context for the device|device list)|IB device \S{1,40} not found"
        r"|Unable to find the Infiniband/RoCE device|No IB devices found|did not detect devices",
    ),
    between_nodes=True,
    confirm="ls -l /dev/infiniband; ibv_devinfo, both inside the container",
    cure=(
        "start the container with --device=/dev/infiniband --cap-add=IPC_LOCK (Kubernetes: the RDMA "
        "device plugin) and install rdma-core with the NIC's provider (libmlx5); on the host "
        "load modules of one release of OFED"
    ),
    source="NCCL src/misc/ibvwrap.cc; libibverbs",
)
