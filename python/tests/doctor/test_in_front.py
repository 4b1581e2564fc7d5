"""What stands before all lines of a log is taken off; what tells lines apart stays."""

from pathlib import Path

import pytest

from busbw.doctor.lines.scanned import Scan
from busbw.doctor.reading.in_front import bare
from busbw.doctor.reading.read_logs import read_logs
from busbw.doctor.reading.snapshot import TextFile

SERVICES = ("python[9]", "slurmd[71]", "sshd[4]")
SAID = ("link is down", "launch task 12.0", "step 4 loss 2.1", "session opened", "step 5 loss 2.0", "link is up")


def journal(*services: str) -> str:
    """Lines of a node's journal, the services in turn."""
    return "".join(
        f"Mar 04 05:06:{at:02} gpu-07 {services[at % len(services)]}: {said}\n" for at, said in enumerate(SAID)
    )


def test_a_journal_of_several_services_keeps_their_names() -> None:
    text = journal(*SERVICES)
    assert bare(text) == text


def test_a_journal_of_one_job_loses_what_the_service_wrote() -> None:
    assert bare(journal("python[9]")) == "\n".join((*SAID, ""))


@pytest.mark.parametrize("name", ["gpu-01: ", "[rank0]: "])
def test_a_host_or_rank_stays(name: str) -> None:
    text = "".join(f"{name}{said}\n" for said in SAID)
    assert bare(text) == text


def scanned(path: Path, *, streamed: bool) -> Scan:
    ((_, found),) = read_logs([TextFile(str(path), None if streamed else path.read_text())])
    return found


@pytest.mark.parametrize("streamed", [False, True])
def test_rank_and_time_in_front_belong_to_what_is_found(streamed: bool, tmp_path: Path) -> None:
    said = [
        "step 1 loss 2.1",
        "Traceback (most recent call last):",
        "torch.OutOfMemoryError: CUDA out of memory.",
        "bye",
    ]
    path = tmp_path / "job.log"
    path.write_text(
        "".join(f"2026-03-04T05:06:{at:02}Z stdout F [1,12]<stderr>:{line}\n" for at, line in enumerate(said))
    )
    hit = scanned(path, streamed=streamed).hits["gpu-memory-full"]
    assert list(hit.who) == ["rank 12"]
    assert hit.dated == 1
    assert hit.lines == [(3, said[2])]
