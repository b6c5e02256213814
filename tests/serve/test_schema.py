"""What is drawn at random from the server's own description is never a fault of the server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from bertkit.serve import Serving, build
from servers import Server

EXAMPLES = 20
OPERATIONS = [
    ("get", "/v1/models"),
    ("get", "/v1/models/{name}"),
    ("get", "/healthz"),
    ("get", "/readyz"),
    ("get", "/metrics"),
    ("post", "/v1/models/{name}/predict"),
    ("post", "/v1/models/{name}/embed"),
    ("post", "/v1/models/{name}/fill-mask"),
    ("post", "/v1/models/{name}/attention"),
    ("post", "/v1/models/{name}/generate"),
    ("post", "/v1/models/{name}/explain"),
    ("post", "/v1/models/{name}/words"),
    ("post", "/v1/embeddings"),
    ("post", "/embed"),
    ("post", "/predict"),
]
ASKED_OF = {"predict": "classify", "explain": "classify", "generate": "writes"}
AS_DESCRIBED, OTHERWISE = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
CASES = [(*each, AS_DESCRIBED) for each in OPERATIONS] + [
    (*each, OTHERWISE) for each in OPERATIONS if each[0] == "post"
]


@pytest.fixture(scope="module")
def description(server: Server) -> Any:
    return httpx.get(f"{server.url}/openapi.json").json()


@pytest.mark.parametrize(("method", "path", "mode"), CASES)
def test_no_request_is_a_fault(server: Server, description: Any, method: str, path: str, mode: GenerationMode):
    operation = schemathesis.openapi.from_dict(description)[path][method.upper()]

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def check(case: Any) -> None:
        if "{name}" in path:  # any other is not found
            case.path_parameters = {"name": ASKED_OF.get(path.rpartition("/")[2], "words")}
        done = case.call(base_url=server.url)
        case.validate_response(done, checks=[not_a_server_error, status_code_conformance, response_schema_conformance])

    check()


def test_all_that_is_described_is_tried(folders: Path, description: Any):
    assert {(method, path) for path, methods in description["paths"].items() for method in methods} == set(OPERATIONS)
    assert build(Serving(models=(f"words={folders / 'words'}",))).openapi() == description
