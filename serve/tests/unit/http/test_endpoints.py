"""The whole application on a real decider and a real store."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote, urldefrag, urljoin, urlsplit

import numpy as np
import pytest
from mixts_serve import Decide, Decider, Decision, DecisionStore, Reward
from mixts_serve.dashboard import ASSETS
from mixts_serve.http import openapi
from mixts_serve.http.app import ENDPOINTS, Service
from mixts_serve.http.metrics import BUCKETS, Metrics
from mixts_serve.http.protocol import Limits
from mixts_serve.http.security import Tokens
from mixts_serve.periodic import WindowCloser

import mixts
from mixts import errors
from serve.tests.contracts.stores import arms
from serve.tests.unit.http.calls import Answer, FakeDecider, call, get, post, service

PRIOR = mixts.MixturePrior(
    mixts.BernoulliArms([[5.0, 1.0], [1.0, 5.0]], [[1.0, 5.0], [5.0, 1.0]]),
    names=["left", "right"],
    arm_names=["a", "b"],
)


@dataclass
class Running:
    service: Service
    decider: Decider
    store: DecisionStore


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    path = tmp_path_factory.mktemp("store") / "decisions.db"
    with DecisionStore(path) as store, Decider(PRIOR, store, seed=1) as decider:
        app = Service(decider, store)
        yield Running(app, decider, store)
        app.close()


def bundle(prior: mixts.MixturePrior, folder: Path) -> bytes:
    prior.save(folder / "prior.json")
    return (folder / "prior.json").read_bytes()


def upload(running: Running, body: bytes, query: str = "") -> Answer:
    return post(running.service, f"/v1/priors{query}", body)


# -- decisions, rewards and tasks -----------------------------------------------------------------


def test_a_decision_its_reward_and_what_is_then_believed(running: Running) -> None:
    made = post(running.service, "/v1/decide", {"task": "u17", "key": "k"})
    assert made.status == 200
    fields = {"id", "task", "action", "propensity", "weights", "policy", "prior_version", "arm"}
    assert set(made.json) == fields
    assert made.json["arm"] == "ab"[made.json["action"]]
    assert post(running.service, "/v1/decide", {"task": "u17", "key": "k"}).json == made.json
    rewards = [
        post(running.service, "/v1/reward", {"id": made.json["id"], "value": value})
        for value in (1, 1, 0)
    ]
    assert [answer.status for answer in rewards] == [200, 200, 409]
    assert [answer.json for answer in rewards[:2]] == [{"duplicate": False}, {"duplicate": True}]
    state = get(running.service, "/v1/tasks/u17")
    assert state.json["task"] == "u17"
    assert (state.json["decisions"], state.json["rewards"], state.json["late"]) == (1, 1, 0)
    belief = PRIOR.belief()
    belief.update(made.json["action"], 1)
    np.testing.assert_array_equal(state.json["weights"], belief.weights)
    np.testing.assert_allclose(state.json["mean_rewards"], belief.mean_rewards(), rtol=1e-12)
    assert state.json["names"] == ["left", "right"]


def test_what_the_prior_has_no_place_for_is_422(running: Running) -> None:
    for request, field in (
        ({"task": "t", "actions": [[1.0]]}, "actions"),
        ({"task": "t", "mask": [True]}, "mask"),
        ({"task": "t", "mask": [False, False]}, "mask"),
    ):
        answer = post(running.service, "/v1/decide", request)
        assert (answer.status, answer.error["field"]) == (422, field)
    made = post(running.service, "/v1/decide", {"task": "t"}).json
    answer = post(running.service, "/v1/reward", {"id": made["id"], "value": 0.5})
    assert (answer.status, answer.error["code"], answer.error["field"]) == (422, "outcome", "value")


def test_unknown_decisions_and_tasks_are_404(running: Running) -> None:
    answer = post(running.service, "/v1/reward", {"id": "nobody's", "value": 1})
    assert (answer.status, answer.error["code"]) == (404, "unknown_decision")
    answer = get(running.service, "/v1/tasks/nobody")
    assert (answer.status, answer.error["code"]) == (404, "unknown_task")


@pytest.mark.parametrize(
    "task", ["a/b", "..", "a b?c#d", "100%25", "größe 🌿", "line\nbreak", "<script>", "x" * 256]
)
def test_any_name_is_found_again(running: Running, task: str) -> None:
    assert post(running.service, "/v1/decide", {"task": task}).status == 200
    answer = get(running.service, "/v1/tasks/" + quote(task, safe=""))
    assert (answer.status, answer.json["task"]) == (200, task)
    assert get(running.service, "/tasks?name=" + quote(task, safe="")).status == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/tasks/%FF", 400), ("/v1/tasks/%00", 422), ("/v1/tasks/" + "x" * 257, 422),
        ("/v1/tasks/a/b", 404), ("/v1/tasks/", 404), ("/v1/tasks", 404), ("/v1/decide/", 404),
        ("/nowhere", 404), ("//", 404),
    ],
)  # fmt: skip
def test_impossible_names_and_unknown_addresses(running: Running, path: str, status: int) -> None:
    answer = get(running.service, path)
    assert answer.status == status
    assert answer.error["message"]


def test_a_wrong_method_says_which_are_right(running: Running) -> None:
    for path, allowed in (("/v1/priors", "GET, HEAD, POST"), ("/v1/arms", "GET, HEAD, POST")):
        answer = call(running.service, "DELETE", path)
        assert (answer.status, answer.headers["allow"]) == (405, allowed)


def test_a_task_is_erased_once(running: Running) -> None:
    running.decider.decide("a/b c")
    erased = [call(running.service, "DELETE", "/v1/tasks/a%2Fb%20c") for _ in range(2)]
    assert [answer.status for answer in erased] == [200, 200]
    counts = [(answer.json["tasks"], answer.json["unknown"]) for answer in erased]
    assert counts == [(1, 0), (0, 1)]
    assert get(running.service, "/v1/tasks/a%2Fb%20c").status == 404
    assert call(running.service, "DELETE", "/v1/tasks/%00").status == 422


# -- priors ---------------------------------------------------------------------------------------


def test_a_new_version_is_uploaded_and_then_activated(running: Running, tmp_path: Path) -> None:
    before = get(running.service, "/v1/prior").json
    assert before == {
        "version": 1, "family": "bernoulli-arms", "n_components": 2, "weights": [0.5, 0.5],
        "names": ["left", "right"], "arm_names": ["a", "b"], "n_arms": 2,
    }  # fmt: skip
    better = mixts.MixturePrior(PRIOR.family, [0.9, 0.1], arm_names=["a", "b"])
    body = bundle(better, tmp_path)
    added = upload(running, body)
    assert (added.status, added.json) == (201, {"version": 2, "active": False})
    assert upload(running, body).json == added.json  # the same prior is the same version
    assert get(running.service, "/v1/prior").json == before
    assert post(running.service, "/v1/decide", {"task": "p"}).json["prior_version"] == 1
    activated = post(running.service, "/v1/priors/2/activate", b"")
    assert (activated.status, activated.json) == (200, {"version": 2, "active": True})
    made = post(running.service, "/v1/decide", {"task": "q"}).json
    assert made["prior_version"] == 2
    np.testing.assert_allclose(made["weights"], [0.9, 0.1], rtol=1e-12)
    assert "names" not in get(running.service, "/v1/tasks/q").json
    versions = get(running.service, "/v1/priors").json
    assert [(row["version"], row["active"]) for row in versions] == [(1, False), (2, True)]
    again = upload(running, bundle(PRIOR, tmp_path), "?activate=true")
    assert (again.status, again.json) == (201, {"version": 1, "active": True})


def test_priors_that_do_not_fit_are_422_with_the_reason(running: Running, tmp_path: Path) -> None:
    before = running.decider.priors()
    mdp = mixts.TabularMDP(np.ones((1, 2, 2, 2)), np.ones((1, 2, 2, 2)), 3, [1.0, 0.0])
    for family, reason in (
        (mdp, "arms and linear"),
        (mixts.GaussianArms([[0.0, 0.0]], [[1.0, 1.0]], 1.0), "cannot go on"),
        (mixts.BernoulliArms([[1.0]], [[1.0]]), "no fewer arms"),
    ):
        answer = upload(running, bundle(mixts.MixturePrior(family), tmp_path), "?activate=true")
        assert answer.status == 422
        assert reason in answer.error["message"]
    assert running.decider.priors() == before


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"not JSON", 400), (b"PK\x03\x04zip", 400), (b"", 400), (b"[1]", 400), (b"{}", 422),
        (b'{"format": "mixts/prior", "version": 99, "arrays": {}}', 422),
        (b'{"format": "mixts/prior", "version": 1, "family": "os.system", "arrays": {}}', 422),
        (b'{"format": "mixts/prior", "version": 1, "arrays": {"w": {"dtype": "O"}}}', 422),
        (b"[" * 100_000, 400), (b'{"a":' * 100_000, 422), (b'{"a": NaN', 422),
    ],
)  # fmt: skip
def test_a_body_that_is_not_a_prior_is_refused(running: Running, body: bytes, status: int) -> None:
    answer = upload(running, body)
    assert answer.status == status
    assert "/" not in answer.error["message"].replace("mixts/prior", "")  # no path of ours


@pytest.mark.parametrize("field", ["alpha", "weights"])
def test_a_damaged_prior_is_refused(running: Running, tmp_path: Path, field: str) -> None:
    content = json.loads(bundle(PRIOR, tmp_path))
    values = np.array(content["arrays"][field]["values"])
    content["arrays"][field]["values"] = (-values).tolist()
    answer = post(running.service, "/v1/priors", content)
    assert (answer.status, answer.error["code"]) == (422, "format")


NUMBERS = (
    ("[[5.0, 1.0], [1.0, 5.0]]", "[[5.0, 1.0], [WRONG, 5.0]]"),
    ("[0.5, 0.5]", "[0.5, WRONG]"),
    ('"shape": [2]', '"shape": [WRONG]'),
    ('"settings": {}', '"settings": {"noise_std": WRONG}'),
    ('"retired": []', '"retired": [WRONG]'),
    ('"family": "bernoulli-arms"', '"family": WRONG'),
)
"""Where a prior's file has them, and how to put something else there."""


@pytest.mark.parametrize("wrong", ['"1.0"', "null", "NaN", "1e999", "[1.0]", "{}"])
@pytest.mark.parametrize(("old", "new"), NUMBERS, ids=[old for old, _ in NUMBERS])
def test_a_non_number_in_a_prior_is_refused(
    running: Running, tmp_path: Path, old: str, new: str, wrong: str
) -> None:
    before = running.decider.priors()
    text = bundle(PRIOR, tmp_path).decode()
    assert old in text
    answer = upload(running, text.replace(old, new.replace("WRONG", wrong)).encode())
    assert (answer.status, answer.error["code"]) == (422, "format")
    assert running.decider.priors() == before


@pytest.mark.parametrize(("name", "value"), [("names", [1, 2]), ("arm_names", 7), ("arrays", [])])
def test_a_wrong_type_in_a_prior_is_refused(
    running: Running, tmp_path: Path, name: str, value: Any
) -> None:
    content = json.loads(bundle(PRIOR, tmp_path))
    answer = post(running.service, "/v1/priors", {**content, name: value})
    assert (answer.status, answer.error["code"]) == (422, "format")


def test_whole_numbers_are_numbers_in_a_prior(running: Running, tmp_path: Path) -> None:
    content = json.loads(bundle(PRIOR, tmp_path))
    content["arrays"]["alpha"]["values"] = [[5, 1], [1, 5]]
    assert post(running.service, "/v1/priors", content).json["version"] == 1


@pytest.mark.parametrize(
    "version", ["0", "99", "-1", "01", "x", "1.0", "99999999999999999999999", "%31%00"]
)
def test_an_unknown_version_is_404(running: Running, version: str) -> None:
    answer = post(running.service, f"/v1/priors/{version}/activate", b"")
    assert (answer.status, answer.error["code"]) == (404, "unknown_prior")


def test_activate_is_true_or_false(running: Running) -> None:
    assert upload(running, b"{}", "?activate=maybe").error["field"] == "activate"


def test_a_prior_may_be_larger_than_other_bodies(tmp_path: Path) -> None:
    small = service(limits=Limits(body=10, prior=50))
    assert post(small, "/v1/priors", b" " * 40).status == 400
    assert post(small, "/v1/priors", b" " * 60).status == 413


# -- for those who run the service ----------------------------------------------------------------


def test_health_and_readiness() -> None:
    decider = FakeDecider()
    fake = service(decider)
    assert get(fake, "/healthz").json == {"status": "ok"}
    assert get(fake, "/readyz").json == {"status": "ok", "pending": 7, "policy": "ids"}
    decider.writable = False
    answer = get(fake, "/readyz")
    assert (answer.status, answer.error["message"]) == (503, "the disk is full")
    assert "retry-after" in answer.headers
    assert get(fake, "/healthz").status == 200


def test_metrics_count_what_was_done(tmp_path: Path) -> None:
    settings = {"policy": "ucb", "horizon": 50, "explore": 0.01}
    with (
        DecisionStore(tmp_path / "d.db") as store,
        Decider(PRIOR, store, seed=1, **settings) as decider,
    ):
        app = Service(decider, store)
        made = post(app, "/v1/decide:batch", [{"task": "t", "key": "k"}] * 2 + [{"task": 1}]).json
        for value in (1, 1, 0):
            post(app, "/v1/reward", {"id": made[0]["id"], "value": value})
        answer = get(app, "/metrics")
        app.close()
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    counts = {
        name: float(value)
        for name, value in (
            line.rsplit(" ", 1) for line in answer.body.decode().splitlines() if line[0] != "#"
        )
    }
    assert counts['mixts_operations_total{operation="decide",status="200"}'] == 2
    assert counts['mixts_operations_total{operation="decide",status="422"}'] == 1
    assert counts['mixts_operations_total{operation="reward",status="200"}'] == 2
    assert counts['mixts_operations_total{operation="reward",status="409"}'] == 1
    assert counts["mixts_duplicate_rewards_total"] == 1
    assert counts["mixts_repeated_decisions_total"] == 1
    assert counts["mixts_conflicts_total"] == 1
    assert counts["mixts_late_rewards_total"] == 0
    assert counts["mixts_store_decisions"] == counts["mixts_store_tasks"] == 1
    assert counts["mixts_prior_version"] == counts["mixts_writable"] == 1
    assert (
        counts['mixts_policy_info{explore="0.01",horizon="50",name="ucb",new_item_share=""}'] == 1
    )
    assert counts['mixts_request_seconds_bucket{endpoint="reward",le="+Inf"}'] == 3
    assert counts['mixts_request_seconds_count{endpoint="decide_batch"}'] == 1
    assert counts["mixts_group_operations"] == 5


def test_silence_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WindowCloser, "start", lambda self: None)
    window = {"reward_window": 1e-6, "default_reward": 0.0}
    with DecisionStore(tmp_path / "d.db") as store, Decider(PRIOR, store, **window) as decider:
        app = Service(decider, store)
        requests = [{"task": "t"}] * 2 + [{"task": "t", "defer": True}]
        made = post(app, "/v1/decide:batch", requests).json
        assert [decision.get("deferred") for decision in made] == [None, None, True]
        decider.end_windows()
        post(app, "/v1/decide", {"task": "t"})
        ready = get(app, "/readyz").json
        decider._closer.only_value = 1.0
        warned = get(app, "/readyz").json
        text = get(app, "/metrics").body.decode()
        state = get(app, "/v1/tasks/t").json
        app.close()
    assert "warning" not in ready
    assert "--default-reward 0" in warned["warning"]
    assert (state["rewards"], state["defaults"], state["deferred"]) == (2, 2, 1)
    for line in (
        "mixts_store_defaults 2.0", "mixts_only_clicks 1.0", "mixts_store_unrewarded_deferred 1.0",
        "mixts_store_unrewarded_due 1.0", "mixts_store_unrewarded_waiting 0.0",
    ):  # fmt: skip
        assert line in text.splitlines()


def test_an_alarm_of_the_prior_is_told_and_the_service_stays_ready(tmp_path: Path) -> None:
    prior = mixts.MixturePrior(
        mixts.BernoulliArms([[9.0, 1.0]], [[1.0, 9.0]]), arm_names=["a", "b"]
    )
    with DecisionStore(tmp_path / "d.db") as store, Decider(prior, store, seed=1) as decider:
        tokens = Tokens([])
        app, closed = Service(decider, store), Service(decider, store, tokens=tokens)
        made = decider.decide_many([Decide(f"t{i}") for i in range(60)])
        decider.reward_many([Reward(one.id, 0.0) for one in made if isinstance(one, Decision)])
        before = get(app, "/readyz").json
        while decider._watch.poll():
            pass
        after = get(app, "/readyz")
        stranger = get(closed, "/readyz")
        text = get(app, "/metrics").body.decode().splitlines()
        app.close()
        closed.close()
    assert "prior_alarm" not in before
    assert after.status == 200
    assert (
        "it expected a mean reward of 0.9, and they earned 0; 'a' alone"
        in after.json["prior_alarm"]
    )
    assert stranger.json["prior_alarm"] == (
        "the rewards do not agree with the prior: see the dashboard"
    )
    gauges = dict(line.split() for line in text if line.startswith("mixts_prior"))
    assert gauges["mixts_prior_alarm"] == "1.0"
    assert float(gauges["mixts_prior_expected_reward"]) == pytest.approx(0.9)
    assert float(gauges["mixts_prior_earned_reward"]) == 0
    assert float(gauges["mixts_prior_evidence"]) > 2


def test_metrics_are_valid_text_of_prometheus() -> None:
    """Each series is introduced once, and buckets grow."""
    metrics = Metrics()
    for seconds in (0.0001, *BUCKETS, 99.0):
        metrics.count_request("decide", 200, seconds)
    text = metrics.text({"pending_operations": ("Waiting", 3)}, {"name": "ids"}).decode()
    introduced = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(introduced) == len(set(introduced))
    buckets = [float(line.split()[1]) for line in text.splitlines() if "_bucket" in line]
    assert buckets == [2, *range(3, len(BUCKETS) + 2), len(BUCKETS) + 2]
    assert text.endswith("mixts_pending_operations 3.0\n")


# -- the document ---------------------------------------------------------------------------------


def test_the_document_is_served_and_whole(running: Running) -> None:
    answer = get(running.service, "/openapi.json")
    document = answer.json
    assert document["openapi"] == "3.1.0"
    assert set(document["paths"]) == {call.path for call in ENDPOINTS}
    text = answer.body.decode()
    names = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert names <= set(document["components"]["schemas"])
    decide = document["paths"]["/v1/decide"]["post"]
    assert decide["security"] == []
    assert {"200", "400", "409", "413", "415", "422", "503"} <= set(decide["responses"])
    request = document["components"]["schemas"]["Decide"]
    assert request["required"] == ["task"]
    assert request["additionalProperties"] is False


def test_the_document_knows_limits_and_tokens() -> None:
    document = openapi.document(ENDPOINTS, Limits(actions=7, batch=9), tokens=True)
    decide = document["paths"]["/v1/decide"]["post"]
    assert decide["security"] == [{"token": []}]
    assert "security" not in document["paths"]["/healthz"]["get"]
    batch: Any = document["paths"]["/v1/decide:batch"]["post"]["requestBody"]
    assert batch["content"]["application/json"]["schema"]["maxItems"] == 9
    mask = document["components"]["schemas"]["Decide"]["properties"]["mask"]
    assert mask["anyOf"][0]["maxItems"] == 7


def test_every_address_of_the_document_is_answered(running: Running) -> None:
    """None of them is 404 or 405 for want of a route."""
    post(running.service, "/v1/decide", {"task": "first"})
    for call_ in ENDPOINTS:
        path = call_.path.replace("{task}", "first").replace("{version}", "1")
        answer = (
            post(running.service, path, b"null")
            if call_.method == "POST"
            else call(running.service, call_.method, path)
        )
        assert answer.status not in (404, 405, 500), call_.path


# -- pages ----------------------------------------------------------------------------------------


def test_pages_and_what_they_need(running: Running) -> None:
    post(running.service, "/v1/decide", {"task": "<b>&"})
    for path in ("/", "/?search=b&offset=0", "/?offset=-5&span=x", "/?offset=99999999999999999999"):
        answer = get(running.service, path)
        assert answer.status == 200
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert b"<b>&" not in answer.body
    assert get(running.service, "/tasks?name=%3Cb%3E%26").status == 200
    for path in ("/tasks?name=nobody", "/tasks", "/tasks?name=%00"):
        answer = get(running.service, path)
        assert answer.status == 404
        assert answer.headers["content-type"].startswith("text/html")
    assert ASSETS
    for name in ASSETS:
        assert get(running.service, f"/assets/{name}").status == 200
    assert get(running.service, "/assets/..%2Fapp.py").status == 404


@pytest.mark.parametrize(
    ("forwarded", "scheme"), [(None, "http"), ("https", "https"), ("<script>", "http")]
)
def test_commands_on_pages_have_the_scheme_of_the_proxy(
    tmp_path: Path, forwarded: str | None, scheme: str
) -> None:
    with DecisionStore(tmp_path / "d.db") as store, Decider(arms(), store) as decider:
        app = Service(decider, store)
        headers = [] if forwarded is None else [("x-forwarded-proto", forwarded)]
        page = get(app, "/", headers=headers).body.decode()
        app.close()
    assert f"curl {scheme}://127.0.0.1:8321/v1/decide" in page


@pytest.mark.parametrize("prefix", ["", "/mixts", "/a/b"])
def test_pages_work_behind_a_proxy_that_takes_a_prefix_off(running: Running, prefix: str) -> None:
    """Every link of every page leads to another one under the same prefix."""
    for i in range(60):
        post(running.service, "/v1/decide", {"task": f"a/b {i}"})
    home = f"http://shop.example{prefix}/"
    left, seen = [home], set()
    while left:
        page = left.pop()
        assert page.startswith(home), page
        path, query = urlsplit(page)[2:4]
        place = path.removeprefix(prefix)
        if (place, query[:5]) in seen:  # another task, or another period
            continue
        seen.add((place, query[:5]))
        answer = get(running.service, f"{place}?{query}")
        assert answer.status == 200, page
        if answer.headers["content-type"].startswith("text/html"):
            links = re.findall(r'(?:href|src|action)="([^"]*)"', answer.body.decode())
            found = {urldefrag(urljoin(page, unescape(link)))[0] for link in links}
            left += sorted(link for link in found if not link.startswith("data:"))
    assert {place for place, _ in seen} == {
        "/", "/tasks", "/assets/dashboard.css", "/assets/dashboard.js", "/openapi.json",
    }  # fmt: skip
    script = get(running.service, "/assets/dashboard.js").body.decode()
    assert not re.findall(r"fetch\(\s*[\"'`]/", script)


def test_a_store_that_cannot_be_read_gives_a_page_that_says_so(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*arguments: object) -> None:
        raise errors.StoreUnavailableError("the database is away")

    monkeypatch.setattr(running.store, "totals", away)
    answer = get(running.service, "/")
    assert (answer.status, answer.headers["retry-after"]) == (503, "5")
    assert b"the database is away" in answer.body
    assert get(running.service, "/metrics").status == 200
