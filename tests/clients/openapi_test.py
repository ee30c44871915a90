"""schemathesis against a running router: it makes requests from /openapi.json and checks the answers against it.

Answers to generated requests are mostly refusals, so a small count covers much; ROOST_OPENAPI_EXAMPLES sets it.
"""

import os

import schemathesis
from conftest import DEMO
from features import feature
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

EXAMPLES = int(os.environ.get("ROOST_OPENAPI_EXAMPLES", "20"))
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
# A valid generated request would otherwise run to the end of the context.
MAX_TOKENS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def bounded(body):
    """The same body for an existing model, with fewer tokens if it asks for too many."""
    if not isinstance(body, dict):
        return body
    body = dict(body)
    if isinstance(body.get("model"), str) and len(body["model"]) % 4:
        body["model"] = DEMO
    for name in MAX_TOKENS:
        if isinstance(body.get(name), int) and body[name] > 8:
            body[name] = 8
    if isinstance(body.get("model"), str) and not any(name in body for name in MAX_TOKENS) and "messages" in body:
        body["max_tokens"] = 4
    return body


def hold(operation):
    """Sends generated requests to one operation. Raises at the first answer that the document does not allow."""

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    )
    @given(case=operation.as_strategy())
    def ask(case):
        case.body = bounded(case.body)
        case.call_and_validate(checks=CHECKS, timeout=60)

    ask()


@feature("schemathesis", "the document", "errors")
def test_every_answer_is_as_the_document_says(router):
    document = schemathesis.openapi.from_url(router.url + "/openapi.json")
    wrong = {}
    for found in document.get_all_operations():
        operation = found.ok()
        try:
            hold(operation)
        except Exception as error:  # from any check: all operations are tested
            parts = getattr(error, "exceptions", [error])
            wrong[operation.label] = "\n".join(str(part) for part in parts)[:2000]
    assert not wrong, "\n\n".join(f"{label}: {error}" for label, error in wrong.items())


@feature("schemathesis", "the document")
def test_the_document_has_the_routes_that_clients_use(router):
    document = router.request("GET", "/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    routes = ["/v1/chat/completions", "/v1/completions", "/v1/models", "/v1/responses", "/v1/messages", "/tokenize"]
    assert not [route for route in routes if route not in document["paths"]]
