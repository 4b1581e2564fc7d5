"""What tests of Azure ML share: a credential, a job, answers, and a look at what the stand-in keeps."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from stand_in import TOKEN, StandIn

from busbw.launch.clouds.azureml.documents import Measurement

MEASUREMENT = Measurement(("all_reduce", "-b", "8", "it's"), 2, 8, "mpi", {"NCCL_DEBUG": "INFO"}, 1200, "run-1")
EXAMPLES = Path(__file__).resolve().parents[5] / "schema" / "examples"


class Credential:
    """Stands in for azure-identity's."""

    def get_token(self, *_: str, **__: object) -> Any:
        from azure.core.credentials import AccessToken

        return AccessToken(TOKEN, int(time.time()) + 3600)


def yes(_question: str) -> bool:
    return True


def no(_question: str) -> bool:
    return False


def kept(azure: StandIn, part: str) -> dict[str, Any]:
    [found] = [value for path, value in azure.there.items() if part in path]
    return found


def finishing_as(azure: StandIn, name: str, status: str) -> None:
    kept(azure, f"/jobs/{name}")["properties"]["status"] = status
