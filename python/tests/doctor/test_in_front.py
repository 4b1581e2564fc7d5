"""What stands before all lines of a log is taken off; what tells lines apart stays."""

import pytest

from busbw.doctor.reading.in_front import bare

SERVICES = ("python[9]", "kernel", "slurmd[71]", "sshd[4]")
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
