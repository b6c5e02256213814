"""What is drawn at random from the server's own description is never a fault of the server."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance
from schemathesis.checks import not_a_server_error

from bertkit.serve.app import build
from bertkit.serve.settings import Settings
from servers import Server

EXAMPLES = 25


@pytest.fixture(scope="session")
def description(server: Server, client: httpx.Client):
    return schemathesis.openapi.from_dict(client.get("/openapi.json").json())


schema = schemathesis.pytest.from_fixture("description")


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_no_request_that_fits_the_description_is_a_fault(case, server: Server):
    if "name" in case.path_parameters:
        case.path_parameters["name"] = "classify" if "predict" in case.path else "words"
    done = case.call(base_url=server.url)
    case.validate_response(done, checks=[not_a_server_error, status_code_conformance, response_schema_conformance])


def test_the_description_is_that_of_the_application(folders: Path, client: httpx.Client):
    app = build(Settings(models={"words": str(folders / "words")}))
    assert client.get("/openapi.json").json() == app.openapi()
