"""The server does what docs/openapi.yaml says: requests made up from the document.

Each route gets the values at every limit of its schema, values just beyond, other types and missing
fields (schemathesis' coverage phase), and then requests that are drawn, the same in every run.
"""

import collections
import re
from pathlib import Path

import pytest
import schemathesis
import yaml
from hypothesis import HealthCheck, Phase, settings
from narrowed import agree, is_a_hair_beyond, narrowed
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    allow_header_conformance, content_type_conformance, negative_data_rejection,
    response_headers_conformance, response_schema_conformance, status_code_conformance,
    unsupported_method)

ROOT = Path(__file__).resolve().parents[2]
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance,
          response_schema_conformance, response_headers_conformance, negative_data_rejection,
          unsupported_method, allow_header_conformance]
EXAMPLES = 100  # drawn for each route

DOCUMENT = yaml.safe_load((ROOT / "docs/openapi.yaml").read_text())
schema = schemathesis.openapi.from_dict(narrowed(DOCUMENT), config=schemathesis.Config(seed=1))


@pytest.fixture(scope="module")
def statuses():
    """How often each route gave each status."""
    return collections.defaultdict(collections.Counter)


def may_be_refused(error):
    """Why the server may refuse what the document allows."""
    field, code = error["param"], error["code"]
    if code == "context_length_exceeded":
        return True
    if field == "dimensions":
        return "are not cut" in error["message"]  # the model's own number is not in the document
    if code == "invalid_value" and re.match(r"(?:prompt|input)(\[\d+\])?$", field):
        return "is empty" in error["message"]  # this model has no token to begin with
    return code == "invalid_value" and field in ("grammar", "regex", "response_format")


@schema.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, database=None, derandomize=True,
          phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck))
def test_a_route_does_what_the_document_says(case, server, statuses):
    if is_a_hair_beyond(case.body):
        return
    allowed = case.meta.generation.mode.is_positive
    if allowed:
        agree(case.body)
    response = case.call_and_validate(base_url=server.url, checks=CHECKS)
    statuses[case.operation.label][response.status_code] += 1
    if allowed and response.status_code == 400:
        assert may_be_refused(response.json()["error"]), (response.text, case.body)


def test_every_route_has_answered(statuses):
    """Nothing would be learnt if all requests were refused."""
    assert set(statuses) == {f"{method.upper()} {path}" for path, methods in DOCUMENT["paths"].items()
                             for method in methods}
    assert {route: dict(counts) for route, counts in statuses.items() if not counts[200]} == {}
