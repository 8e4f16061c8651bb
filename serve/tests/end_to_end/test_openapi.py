"""Requests made up from the service's own description of itself, right and wrong ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
import schemathesis
from mixts_serve import Decider, DecisionStore
from mixts_serve.http.app import ENDPOINTS, Service
from mixts_serve.http.openapi import document
from mixts_serve.http.protocol import Limits
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    negative_data_rejection,
    positive_data_acceptance,
    unsupported_method,
)

from serve.tests.contracts.stores import ACTIONS, arms, linear

# schemathesis draws some of what it sends from Python's own generator.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the .random. module")

PRIORS = {"arms": arms(), "linear": linear()}
SCHEMA = schemathesis.openapi.from_dict(document(ENDPOINTS, Limits(), tokens=False))
OPERATIONS = {found.ok().label: found.ok() for found in SCHEMA.get_all_operations()}


def on_this_machine(service: Service) -> Any:
    """The service, asked by its right name whatever the client calls it."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = [pair for pair in scope["headers"] if pair[0] != b"host"]
            await service({**scope, "headers": [*headers, (b"host", b"localhost")]}, receive, send)

    return application


@pytest.fixture(scope="module", params=sorted(PRIORS))
def live(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[DecisionStore, Any]]:
    """A store with a task and its one decision, and the service on it."""
    path = tmp_path_factory.mktemp("store") / "decisions.db"
    with (
        DecisionStore(path) as store,
        Decider(PRIORS[request.param], store, seed=1) as decider,
    ):
        decider.decide("u", ACTIONS if request.param == "linear" else None)
        service = Service(decider, store)
        yield store, on_this_machine(service)
        service.close()


def ask(
    label: str, mode: GenerationMode, live: tuple[DecisionStore, Any], n_examples: int
) -> dict[int, int]:
    """Make requests; how often each status came."""
    store, application = live
    statuses: dict[int, int] = {}
    # How many actions there are is the prior's to say, and lists are answered item by item.
    excluded = [unsupported_method, positive_data_acceptance]
    excluded += [negative_data_rejection] * label.endswith(":batch")

    @hypothesis.settings(
        max_examples=n_examples,
        suppress_health_check=[*hypothesis.HealthCheck],
        phases=[hypothesis.Phase.generate],
    )
    @hypothesis.given(case=OPERATIONS[label].as_strategy(generation_mode=mode))
    def run(case: schemathesis.Case) -> None:
        before = store.totals()
        response = case.call(app=application, base_url="http://localhost")
        status = response.status_code
        statuses[status] = statuses.get(status, 0) + 1
        assert status < 500 or status == 503, response.text
        # Every answer has a status and a form that the document names. A list that is too long may
        # be refused for its bytes, which is no refusal in the eyes of the check.
        but = [negative_data_rejection] * (status == 413)
        case.validate_response(response, excluded_checks=[*excluded, *but])
        if status >= 400:
            assert store.totals() == before

    run()
    return statuses


CASES = [
    pytest.param(label, mode, id=f"{label} {mode.value}")
    for label, operation in OPERATIONS.items()
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE or operation.body
]


@pytest.mark.parametrize(("label", "mode"), CASES)
def test_every_answer_is_as_described(
    label: str, mode: GenerationMode, live: tuple[DecisionStore, Any]
) -> None:
    assert sum(ask(label, mode, live, 5).values()) >= 1


@pytest.mark.slow
@pytest.mark.parametrize(("label", "mode"), CASES)
def test_every_one_of_many_answers_is_as_described(
    label: str, mode: GenerationMode, live: tuple[DecisionStore, Any]
) -> None:
    statuses = ask(label, mode, live, 300)
    print(label, mode.value, dict(sorted(statuses.items())))
    assert sum(statuses.values()) >= 1


def test_descriptions_are_short_and_not_about_python() -> None:
    schemas = document(ENDPOINTS, Limits(), tokens=False)["components"]["schemas"]
    described = {name: one["description"] for name, one in schemas.items() if "description" in one}
    assert "Decision" in described
    for name, text in described.items():
        assert "\n\n" not in text, name
        assert ">>>" not in text, name
