"""An RDMA port lost its link."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="ib-port-down",
    stage=Stage.NETWORK,
    title="an RDMA port is down or lost its link",
    patterns=(
        r"\bonly \d+ port\(?s?\)? (?:is|are) active\b.{0,40}expect",  # gpud
        r"^State {2,}: Polling\b",  # mlxlink
        r"^\s{0,8}Link detected: no\b",  # ethtool
        # Of `ip link`: ports without a cable are common, but not those that are named for RDMA.
        r"\b(?:ib|ibp|ibs|rdma|roce|hsn)\w{0,16}: <NO-CARRIER\b",
        r"\bbond\w*: .{0,60}link status definitely down",
        r"\bbond\w*: now running without any active interface",
        # Pairs of switches (MLAG, vPC), and transceivers that SONiC cannot start.
        r"\bclagd\[\d{1,8}\]: peer ?link \S{1,30} is down|protodown set \(clag\)|vPC peer-?link is down",
        r"\bxcvrd\b.{0,40}Ethernet\d{1,4}\b.{0,60}(?:failed|failure)",
        r"%ETH-4-ERRDISABLE\b",
        r"^\s{0,8}state:\s{1,8}\d: (?:DOWN|INIT)",
        r"^\s{0,8}phys state:\s{1,8}\d: (?:Polling|Disabled|Sleep)",
        # A switch that lets a port talk only after it proved who it is (802.1X).
        r"EAP-FAILURE|PAE state=HELD|\b802\.1[Xx]\b.{0,60}(?:fail|unauthori|denied|reject)|port unauthorized",
        r"Link down reason|[Cc]able is (?:un|not )plugged|bad signal integrity|^\s{0,8}State: *Polling",
        r"\bstate:\s{1,8}PORT_(?:DOWN|INIT|ARMED)\b",
        r"\bno SM is active\b|can't resolve self port|Physical state:? Polling",
        r"no active ports? (?:detected(?! \(or Open MPI)|found)",
        r"Port module event\[error\]",
        r"no subnet manager|port \d+ state: ?(?:INIT|DOWN)",
        r"LINK_UP.{0,40}SM lid 0\b",
        r"async event ?: ?.{0,20}port (?:error|down)",
        r"\bport error",
        r"opensm\b.{0,160}has gone down",
        r"%ETHPORT-\d-IF_DOWN_(?!ADMIN|CFG|NONE)\w{3,40}: Interface \S{1,40} is down",
        r"Interface \S{1,40}, changed state to down",
        r"Line protocol on Interface.{0,80}changed state to down|\bLINK_?DOWN\b.{0,60}(?:mlx5|gpu|ib)",
        r"\b(?:NIC Link is Down|link down event)\b",
        # Switches and those who manage them name a port in many ways.
        r"\b(?:swp|(?-i:Ethernet|Eth)|et-|xe-)\d\S{0,12} .{0,60}"
        r"(?:link is down|changed (?:its )?state to down|link (?:went|has gone) down|\bflap)",
        r"\blink (?:is|went|has gone) down\b.{0,80}(?:HCA|leaf|spine|mlx5|rail)",
        r"(?:HCA|leaf|spine|mlx5|rail)\S{0,40}.{0,60}\blink (?:is |went |has gone )?down\b",
        r"^\s{0,8}link status: DOWN|\boper(?:ational)? state (?:is )?down\b",
        r"PORT_ERR|[Pp]ort state changed from \S{1,20} to (?!ACTIVE|active)\S|link down counter has been incremented",
        r"mlx\d_\w+.{0,60}(?:Link down|port \d+ (?:is )?down|state.{0,10}DOWN)",
        r"link_layer.{0,60}State:? *Down",
        r"IB port.{0,40}(?:down|not active|inactive)",
        r"port \d+ is not active",
        r"^\[ {0,6}(?P<early>\d{1,2}\.\d{1,9})\] mlx5_core \S{4,20} \S{3,20}: Link down",
        r"^\[ {0,6}(?P<boot>\d{1,2}\.\d{1,9})\] mlx5_core \S{4,20} Port module event: module \d{1,3}, Cable unplugged",
        r"mlx5_core.{0,80}(?:Link down|Cable unplugged|module.{0,20}unplugged)",
        r"Physical state: *(?:Polling|Disabled|LinkDown)",
        r"State: *(?:Down|Initializing)(?:$|, Physical state)",
        r"Port number \d+ state is (?:Down|Init)",
        r"Port number \d+ .{0,30}not active",
    ),
    explains=(
        "ib-async",
        "ib-retry",
        "ib-connect-timeout",
        "ib-flush",
        "ib-devices-missing",
        "network-not-found",
        "mpi-network",
    ),
    between_nodes=True,
    confirm="ibstat; ibv_devinfo; `dmesg | grep mlx5` on the host that is named",
    cure=(
        "check cable, transceiver and switch port (Polling: nothing at the other end; Initializing: "
        "no subnet manager, start opensm); leave the port out by NCCL_IB_HCA=^mlx5_N meanwhile"
    ),
    source="NCCL src/transport/net_ib.cc (async events)",
)
