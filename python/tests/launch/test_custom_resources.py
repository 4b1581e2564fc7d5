"""MPIJob and JobSet against the definitions that their operators install: nothing unknown, nothing missing."""

from __future__ import annotations

import copy
import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from jobs import JOB, PLAIN

from busbw.launch.job import KubernetesOptions
from busbw.launch.kubernetes import job_set, mpi_job

yaml = pytest.importorskip("yaml")

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
FOLDER = "BUSBW_TEST_CRDS"
"""Names a folder with the operators' own files, such as kubeflow.org_mpijobs.yaml and jobset.x-k8s.io_jobsets.yaml."""
WHERE = "manifests/base of kubeflow/mpi-operator, config/components/crd/bases of kubernetes-sigs/jobset"
PLAIN_ONE = replace(PLAIN, kubernetes=KubernetesOptions("image"))
ON_NODES = replace(JOB, kubernetes=KubernetesOptions("image", hosts=("n1", "n2.lab")))  # as of a fleet's groups


def strict(schema: Any) -> Any:
    """As an API server validates strictly: what a definition does not name is an error, unless it keeps all."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    if isinstance(made.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        made.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    return made


@cache
def definition(kind: str, version: str) -> Any:
    """The schema of a kind in a version, from the operator's file."""
    folder = os.environ.get(FOLDER)
    if not folder:
        pytest.skip(f"skipped: no custom resource definitions; {FOLDER} names a folder with them ({WHERE})")
    for path in sorted(Path(folder).glob("*.yaml")):
        for document in yaml.load_all(path.read_text(encoding="utf-8"), Loader=LOADER):
            if (
                document
                and document.get("kind") == "CustomResourceDefinition"
                and kind == document["spec"]["names"]["kind"]
            ):
                (found,) = (each for each in document["spec"]["versions"] if each["name"] == version)
                schema = strict(found["schema"]["openAPIV3Schema"])
                # Of these the API server itself knows more than the definition says.
                schema["properties"]["metadata"] = {"type": "object"}
                return schema
    pytest.fail(f"{folder} defines no {kind}")


@pytest.mark.parametrize("job", [JOB, PLAIN_ONE, ON_NODES], ids=["full", "plain", "on nodes"])
@pytest.mark.parametrize(
    ("make", "kind", "version"),
    [(mpi_job, "MPIJob", "v2beta1"), (job_set, "JobSet", "v1alpha2")],
    ids=["MPIJob", "JobSet"],
)
def test_the_operators_own_definition_accepts_it(make: Any, kind: str, version: str, job: Any) -> None:
    schema = definition(kind, version)
    manifest = make(job)
    jsonschema.validate(manifest, schema)
    wrong = copy.deepcopy(manifest)
    wrong["spec"]["unheardOf"] = 1
    with pytest.raises(jsonschema.ValidationError, match="unheardOf"):
        jsonschema.validate(wrong, schema)


def test_strictness_is_that_of_an_api_server() -> None:
    known: dict[str, Any] = {"type": "object", "properties": {"a": {"x-kubernetes-int-or-string": True}}}
    for value, fits in (({"a": 1}, True), ({"a": "1"}, True), ({"a": []}, False), ({"b": 1}, False)):
        assert jsonschema.Draft202012Validator(strict(known)).is_valid(value) is fits, value
    kept = strict({**known, "x-kubernetes-preserve-unknown-fields": True})
    assert jsonschema.Draft202012Validator(kept).is_valid({"b": 1})
