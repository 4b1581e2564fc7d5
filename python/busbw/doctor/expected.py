"""What a table should have reached: by the machine that was named, its topology, or what logs say of its network."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from busbw.base.errors import UserError
from busbw.doctor.domains import Domain, domain_of, joined, of_several
from busbw.doctor.reading.snapshot import Snapshot
from busbw.expect import machines
from busbw.expect.expectation import TELLING_BYTES, Place, by_name, expected, place_of
from busbw.expect.fabric import Fabric, of_machine
from busbw.expect.links import NET_SHARE, NetKind
from busbw.expect.question import Prediction
from busbw.machine.nccl.log_model import NcclLog
from busbw.machine.topology.model import SWITCH, Machine, NvLinks
from busbw.machine.topology.names import AMD, is_amd, is_part, product
from busbw.records import Case, Record

GIVE = "give --topology of one, or --machine TYPE"
MANY = 4
"""So many types are not listed: `busbw predict --list` does."""
_SOLD_APART = (NetKind.TCPX, NetKind.TCPXO)
"""Networks of one provider, whose NICs a file without rates does not show to be theirs."""
_WITHOUT_NAME = frozenset({"", "GPU", "Graphics Device"})


@dataclass(frozen=True, slots=True)
class Expected:
    """The prediction of each case that has one, by its position.

    `basis` says how the network is known where no file told its rates, `missing` what is not known.
    """

    found: Mapping[int, Prediction]
    basis: str = ""
    missing: str = ""
    fabric: Fabric | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """What beside a table may say which machine it was measured on; `named` is the type that the user names."""

    snapshot: Snapshot
    logs: tuple[NcclLog, ...] = ()
    named: Fabric | None = None


def expected_of(record: Record, known: Known) -> Expected:
    """What the record's cases should have reached, as far as anything says it."""
    place = place_of(record.run) or _full_nodes(record, known.named)
    if place is None:
        return Expected({}, missing=_why_no_place(record))
    name = gpu_of(record)
    if known.named is not None:
        refuse_other(known.named, place, name)
    domain = domain_of(place, known.logs, record.run.settings)
    fabric, basis = _fabric(record, place, known, domain)
    found = expected(record, fabric, place) if fabric else {}
    if fabric is not None and (asked := of_several(record, found, fabric, place, domain)):
        return Expected({}, missing=asked)
    if not found and place.nodes > 1:
        found, basis = _fastest(record, place, domain)
    if not found:
        return Expected({}, missing=_why_unknown(record, place, known))
    left_out = _placements_left_out(record)
    asked_for = {at: each for at, each in found.items() if record.cases[at].placement not in left_out}
    figures = {at: each for at, each in asked_for.items() if _is_number(record.cases[at])}
    lost = len(asked_for) - len(figures)
    return Expected(figures, basis, f"{lost} of {len(asked_for)} figures are no numbers" if lost else "", fabric)


def _placements_left_out(record: Record) -> set[str | None]:
    """Those of which no row has any figure, not even a count of errors: the benchmark did not measure them."""
    with_figures: dict[str | None, bool] = {}
    for case in record.cases:
        figures = (case.time_us, case.algbw_GBps, case.busbw_GBps, case.wrong)
        with_figures[case.placement] = with_figures.get(case.placement, False) or figures != (None,) * 4
    return {each for each, has in with_figures.items() if not has} if any(with_figures.values()) else set()


def _full_nodes(record: Record, named: Fabric | None) -> Place | None:
    """How ranks that no table lists lie on machines of the type that the user names: a rank on each of their GPUs."""
    counts = {case.ranks or 0 for case in record.cases}
    ranks = counts.pop() if len(counts) == 1 else 0
    if named is None or record.run.ranks or ranks < 2:
        return None
    if ranks <= named.gpus:
        return Place(ranks, 1)
    return Place(named.gpus, ranks // named.gpus) if ranks % named.gpus == 0 else None


def gpu_of(record: Record) -> str:
    """The name of the GPUs of a record; empty where it is unknown or they differ."""
    names = {rank.device.name or "" for rank in record.run.ranks if rank.device}
    if not record.run.ranks:
        names = {str(record.run.options.get("gpu") or "")}
    name = names.pop() if len(names) == 1 else ""
    return "" if name in _WITHOUT_NAME else name


def refuse_other(fabric: Fabric, place: Place, name: str) -> None:
    """UserError where a table cannot be of the machine type that the user named."""
    sm = found.sm if (found := product(name)) else None
    if fabric.gpus < place.gpus or (sm and fabric.sm and sm != fabric.sm):
        raise UserError(
            f"--machine {fabric.name} has {machines.describe(fabric)}; the table was measured on {place.gpus} x "
            f"{name or 'GPUs'} a node: name the type of that machine",
            exit_code=2,
        )


def with_type(machine: Machine, named: Fabric) -> Machine:
    """The machine of a matrix, whose GPUs have no names, with those of its type; UserError where it is of another."""
    known = product(kind := machines.gpu_of(named.name))
    shown = {gpu.sm or (found.sm if (found := product(gpu.name)) else None) for gpu in machine.gpus} - {None}
    if len(machine.gpus) > named.gpus or (shown and named.sm and named.sm not in shown):
        raise UserError(
            f"--machine {named.name} has {machines.describe(named)}, and {machine.source} shows {len(machine.gpus)} "
            f"GPUs{f' ({machine.gpus[0].name})' if machine.gpus[0].name else ''}: name the type of that machine",
            exit_code=2,
        )
    if known is None or not _is_matrix(machine):
        return machine
    return replace(machine, gpus=tuple(replace(gpu, name=kind, sm=known.sm) for gpu in machine.gpus))


def _is_matrix(machine: Machine) -> bool:
    return not any(gpu.name or gpu.sm or gpu.bus_id for gpu in machine.gpus)


def _is_number(case: Case) -> bool:
    """Whether the case has a figure to compare: of large sizes the bandwidth; a record says null for what was none."""
    figures = (case.busbw_GBps, case.time_us)
    known = [each for each in figures[: 1 if case.bytes >= TELLING_BYTES else 2] if each is not None]
    return bool(known) and all(map(math.isfinite, known))


def _fabric(record: Record, place: Place, known: Known, domain: Domain | None) -> tuple[Fabric | None, str]:
    run, machine, name = record.run, known.snapshot.machine, gpu_of(record)
    if known.named is not None:
        return joined(known.named, place, domain), f"by the type {known.named.name}, as --machine says"
    typed = machines.find(run.machine)
    if typed is not None and typed.gpus >= place.gpus:
        return joined(typed, place, domain), ""
    alone = by_name(run, place)
    if place.nodes == 1 and alone is not None and alone.nvlink_GBps:
        return alone, ""
    if machine is not None and len(machine.gpus) >= place.gpus:
        found, basis = _of_topology(machine, name, place, known.logs, domain)
        if found is not None or place.nodes == 1:
            return found, basis
    return (alone, "") if place.nodes == 1 else _of_logs(place, name, known.logs, alone, domain)


def _of_logs(
    place: Place, name: str, logs: Sequence[NcclLog], alone: Fabric | None, domain: Domain | None
) -> tuple[Fabric | None, str]:
    """The fabric of several nodes as logs name it, or as one NVLink domain; `alone` is a node without its NICs."""
    fits = [joined(each, place, domain) for each in machines.of_gpu(name) if each.gpus >= place.gpus]
    for found, basis in (_named_in(logs, fits), _counted(logs, alone, fits), _domain(place, fits)):
        if found is not None:
            return joined(found, place, domain), basis
    return None, ""


def _of_topology(
    machine: Machine, name: str, place: Place, logs: Sequence[NcclLog], domain: Domain | None
) -> tuple[Fabric | None, str]:
    """The fabric of a topology; its NICs' rates are those of the one type that looks so, where it tells none."""
    fits = [joined(each, place, domain) for each in machines.of_gpu(name) if each.gpus == len(machine.gpus)]
    try:
        fabric = of_machine(_with_names(machine, name), whole=True)
    except UserError:
        return _by_count(machine, fits, logs) if place.nodes > 1 else (None, "")
    fabric = replace(fabric, domain=max((each.domain for each in fits), default=0))
    if place.nodes == 1 or (fabric.nics and fabric.nic_Gbps):
        return fabric, ""
    if place.gpus * place.nodes <= fabric.domain:
        return fabric, _in_domain(place, fabric)
    return _by_count(machine, fits, logs)


def _by_count(machine: Machine, fits: Sequence[Fabric], logs: Sequence[NcclLog]) -> tuple[Fabric | None, str]:
    """The one type that has as many NICs of that kind, where a file made for virtual machines tells no rate."""
    unrated = [nic for nic in machine.nics if nic.speed_Gbps is None]
    nets = {NetKind.INFINIBAND} if any(nic.rdma for nic in unrated) else set(NetKind) - {NetKind.INFINIBAND}
    nets = _nets_in(logs) & nets or nets
    if machine.source and unrated and all(nic.bus_id and nic.name == nic.bus_id for nic in unrated):
        alike = [each for each in fits if each.nics == len(unrated) and each.net in nets - {*_SOLD_APART}]
        if alike and len({each.nic_Gbps for each in alike}) == 1:
            least = min(alike, key=lambda each: NET_SHARE[each.net].share.value)
            return least, f"by {said(least)}: {machine.source} gives {len(unrated)} NICs and no rates"
    return None, ""


def said(fabric: Fabric) -> str:
    """A machine type and its NICs."""
    return f"{fabric.name} ({fabric.nics} x {fabric.nic_Gbps:g} Gbit/s {fabric.net.value})"


def _with_names(machine: Machine, name: str) -> Machine:
    """The machine with the names of its GPUs, which a matrix or a cloud's file leaves out, and their links with it."""
    known = product(name)
    if known is None or any(gpu.name or gpu.sm for gpu in machine.gpus):
        return machine
    silent = not machine.all_nvlink and not any(gpu.nvlinks for gpu in machine.gpus)
    links = (NvLinks(SWITCH, known.nvlinks),) if known.nvlinks and silent and _hides_links(machine) else None
    gpus = tuple(
        replace(gpu, name=name, sm=known.sm, nvlinks=gpu.nvlinks if links is None else links) for gpu in machine.gpus
    )
    return replace(machine, gpus=gpus)


def _hides_links(machine: Machine) -> bool:
    """Whether the machine is of a file for virtual machines, which names buses alone, and not of a matrix."""
    return all(gpu.bus_id for gpu in machine.gpus)


def _nets_in(logs: Sequence[NcclLog]) -> set[NetKind]:
    """The networks of which logs may speak; empty where they name none."""
    found = set[NetKind]()
    for log in logs:
        word = (log.network.text if log.network else "").lower()
        if word in {"aws", "libfabric", "ofi"} or "libfabric" in word:
            provider = log.hardware.provider
            found.add(NetKind.SLINGSHOT if provider is not None and provider.text.startswith("cxi") else NetKind.EFA)
        elif word.startswith("ib") and log.net_devices:
            found.add(NetKind.ROCE if any(each.endswith("/RoCE") for each in log.net_devices) else NetKind.INFINIBAND)
        elif word.startswith("socket"):
            found.add(NetKind.ETHERNET)
    return found


def _named_in(logs: Sequence[NcclLog], fits: Sequence[Fabric]) -> tuple[Fabric | None, str]:
    """The machine type that a plugin names in all logs alike."""
    types = {log.hardware.platform.text: log for log in logs if log.hardware.platform is not None}
    if len(types) != 1:
        return None, ""
    (name, log), line = types.popitem(), 0
    line = log.hardware.platform.line if log.hardware.platform else 0
    found = machines.find(name)
    same = found is not None and any(each.name == found.name for each in fits)
    return (found, f"by the type {name}, which {log.source}:{line} names") if found and same else (None, "")


def _counted(logs: Sequence[NcclLog], alone: Fabric | None, fits: Sequence[Fabric]) -> tuple[Fabric | None, str]:
    """The NICs and rates that NCCL printed with the tree of its system."""
    told = {tuple(sorted(log.hardware.ports.values())): log for log in logs if log.hardware.ports}
    nets = _nets_in(logs)
    if len(told) != 1 or len(nets) != 1 or alone is None:
        return None, ""
    rates, log = told.popitem()
    # Slower ones beside them serve storage or management.
    used = [each for each in rates if each >= max(rates) / 2]
    gpus = max([alone.gpus, *(each.gpus for each in fits)]) if len(used) > alone.gpus else alone.gpus
    fabric = replace(
        alone, gpus=gpus, island=gpus if alone.nvlink_GBps else 1, nics=len(used),
        nic_Gbps=8 * sum(used) / len(used), net=nets.pop(), domain=max((each.domain for each in fits), default=0),
    )  # fmt: skip
    where = f"{log.source}:{log.hardware.ports_line}"
    return fabric, f"by {len(used)} NICs of {fabric.nic_Gbps:g} Gbit/s, as NCCL counts them from {where} on"


def _domain(place: Place, fits: Sequence[Fabric]) -> tuple[Fabric | None, str]:
    """Hosts that fit into one NVLink domain need no NIC."""
    found = next((each for each in fits if place.gpus * place.nodes <= each.domain), None)
    if found is None:
        return None, ""
    return found, _in_domain(place, found)


def _in_domain(place: Place, fabric: Fabric) -> str:
    return f"by NVLink alone: {place.nodes} hosts fit into one domain of {fabric.domain} GPUs"


def _fastest(record: Record, place: Place, domain: Domain | None) -> tuple[dict[int, Prediction], str]:
    """The predictions of the fastest type with these GPUs, where the table reaches them: no NIC could give it more.

    That it does not reach them says nothing, as hosts of these GPUs are sold with fewer and slower NICs.
    """
    best, of_type = dict[int, Prediction](), ""
    types = [each for each in machines.of_gpu(gpu_of(record)) if each.gpus >= place.gpus and each.nics]
    if len(types) == 1 and types[0].gpus > place.gpus:
        return {}, ""  # hosts with fewer GPUs than the one type that is known are of another, which may be faster
    for each in types:
        found = {
            at: one for at, one in expected(record, joined(each, place, domain)).items()
            if record.cases[at].bytes >= TELLING_BYTES and record.cases[at].busbw_GBps
        }  # fmt: skip
        if found and (not best or _largest(found) > _largest(best)):
            best, of_type = found, said(each)
    reached = bool(best)
    for collective in {record.cases[at].collective for at in best}:
        mine = [at for at in best if record.cases[at].collective == collective]
        last = max(mine, key=lambda at: record.cases[at].bytes)
        reached &= (record.cases[last].busbw_GBps or 0.0) >= best[last].busbw_GBps.low
    return (best, f"by the fastest type with these GPUs, {of_type}, which it reaches") if reached else ({}, "")


def _largest(found: Mapping[int, Prediction]) -> float:
    return max(each.busbw_GBps.value for each in found.values())


def _why_no_place(record: Record) -> str:
    ranks = record.run.ranks
    kinds = {rank.device.kind for rank in ranks if rank.device is not None}
    if kinds == {"cpu"}:
        return "its ranks are processors, of which nothing is expected"
    if len(ranks) == 1:
        return "one rank alone has nobody to talk to"
    if ranks and kinds == {"gpu"} and all(rank.device is not None for rank in ranks):
        return "its ranks are not spread evenly over the hosts"
    if name := gpu_of(record):
        return f"its ranks have {name}, but nothing says how many on each host (give --machine TYPE)"
    return "nothing says which GPUs the ranks have (give --machine TYPE)"


def _why_unknown(record: Record, place: Place, known: Known) -> str:
    """What is missing for a prediction of a record that has none."""
    name = gpu_of(record)
    if is_amd(name):
        return f"nothing here predicts {name or AMD}"
    of_gpus = f"nothing is known of the links between {place.gpus} x {name or 'GPUs'}"
    if place.nodes == 1:
        return f"{of_gpus} (give --topology)"
    found = product(name)
    if known.snapshot.machine is None and (found is None or found.nvlinks is None or is_part(name)):
        return f"{of_gpus}, nor of the NICs of {place.nodes} nodes ({GIVE})"
    machine = known.snapshot.machine
    listed = [nic for nic in machine.nics if nic.speed_Gbps is None] if machine is not None else []
    if machine is not None and listed:
        return f"{machine.source} lists {len(listed)} NICs without their rates (give --machine TYPE, or ibstat of one)"
    for log in known.logs:
        if log.net_devices:
            where = f"{log.source}:{log.net_devices_line}"
            return f"{where} names {len(log.net_devices)} NICs and not their rates ({GIVE})"
    fits = [each.name for each in machines.of_gpu(name) if each.gpus >= place.gpus and each.nics]
    such = f", such as {', '.join(fits)}" if 0 < len(fits) < MANY else ""
    return f"nothing says which NICs the {place.nodes} nodes have ({GIVE}{such})"
