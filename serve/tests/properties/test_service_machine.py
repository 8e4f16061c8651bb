"""Any sequence of requests, good and bad, at any time, against a model of sixty lines."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import quote

import hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
)
from mixts_serve import Decider, DecisionStore
from mixts_serve.http.app import Service
from mixts_serve.periodic import WindowCloser
from mixts_serve.store.rebuild import rebuild
from mixts_serve.store.sqlite import SQLiteBackend

import mixts
from serve.tests.contracts.stores import arms
from serve.tests.unit.http.calls import Answer, call, get, post

TASKS = st.sampled_from(["u", "a/b", "..", "<script>", "täsk", "x" * 256])
KEYS = st.one_of(st.none(), st.sampled_from(["k1", "k2"]))
MASKS = st.one_of(st.none(), st.lists(st.booleans(), min_size=3, max_size=3).filter(any))
VALUES = st.sampled_from([0, 1, 0.0, 1.0])

WRONG_DECISIONS = st.sampled_from(
    [
        {}, {"task": ""}, {"task": 5}, {"task": None}, {"task": "x" * 257}, {"task": "a\0b"},
        {"task": "u", "mask": [True]}, {"task": "u", "mask": [False] * 3},
        {"task": "u", "mask": [1, 1, 1]}, {"task": "u", "actions": [[1.0]]},
        {"task": "u", "key": ""}, {"task": "u", "key": 3}, {"task": "u", "other": 1}, [], None,
    ]
)  # fmt: skip
WRONG_VALUES = st.sampled_from(
    ["0.5", "2", "-1", "NaN", "Infinity", "1e999", "true", '"1.0"', "null", "[1]", "{}"]
)


WINDOW = 60
"""The reward window, in seconds; the default reward is 0."""


class Model:
    """Model of the service without a store, a prior or a network."""

    def __init__(self) -> None:
        self.now = 1_000_000
        self.keys: dict[tuple[str, str], tuple[Any, str]] = {}
        self.decisions: dict[str, tuple[str, int]] = {}
        self.shown: dict[str, int] = {}
        """Time at which the window of a decision began."""
        self.rewards: dict[str, float] = {}
        """Rewards that are learned from, default ones included."""
        self.defaults: set[str] = set()
        self.late: dict[str, float] = {}

    def decide(self, request: dict[str, Any], answer: Answer) -> int:
        """The status to expect; a new decision is remembered."""
        pair = (request["task"], request.get("key"))
        contents = (request.get("mask"), request.get("defer", False))
        if pair in self.keys:
            known, id = self.keys[pair]
            if known != contents:
                return 409
            assert answer.json["id"] == id
            return 200
        id = answer.json["id"]
        assert id not in self.decisions
        self.decisions[id] = (request["task"], answer.json["action"])
        if not request.get("defer"):
            self.shown[id] = self.now
        if pair[1] is not None:
            self.keys[pair] = (contents, id)
        return 200

    def activate(self, id: str) -> bool:
        """Whether it is a duplicate."""
        duplicate = id in self.shown
        self.shown.setdefault(id, self.now)
        return duplicate

    def reward(self, id: str, value: float) -> tuple[int, dict[str, bool]]:
        """The status to expect, and the response."""
        if id not in self.decisions:  # erased
            return 404, {}
        self.activate(id)
        if id in self.due():
            self.end_window(id)
        known = self.late if id in self.defaults else self.rewards
        late = {"late": True} if known is self.late else {}
        if id in known:
            return (200, {"duplicate": True, **late}) if known[id] == value else (409, {})
        known[id] = value
        return 200, {"duplicate": False, **late}

    def erase(self, task: str) -> int:
        """Forget a task; return the number of its decisions."""
        gone = {id for id, (name, _) in self.decisions.items() if name == task}
        for known in (self.decisions, self.shown, self.rewards, self.late):
            for id in gone & known.keys():
                del known[id]  # type: ignore[attr-defined]
        self.defaults -= gone
        self.keys = {pair: made for pair, made in self.keys.items() if pair[0] != task}
        return len(gone)

    def due(self) -> list[str]:
        """Decisions whose window has ended without a reward."""
        ended = [id for id, shown in self.shown.items() if self.now > shown + WINDOW]
        return [id for id in ended if id not in self.rewards]

    def end_window(self, id: str) -> None:
        self.rewards[id] = 0.0
        self.defaults.add(id)

    def belief(self, prior: mixts.MixturePrior, task: str) -> mixts.Belief:
        """Return the belief of a task, from all of its rewards."""
        belief = prior.belief()
        for id, value in self.rewards.items():
            if self.decisions[id][0] == task:
                belief.update(self.decisions[id][1], value)
        return belief


class ServiceMachine(RuleBasedStateMachine):
    """Requests in any order; the service must do as the model says."""

    ids = Bundle("ids")

    @initialize()
    def open(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "decisions.db"
        self.model, self.scale = Model(), 1.0
        # Time goes on only by the rule for it, and windows end only by the rule for that.
        self.closer = mock.patch.object(WindowCloser, "start")
        self.closer.start()
        self.start()

    def now_us(self) -> int:
        return self.model.now * 1_000_000

    def start(self) -> None:
        self.store = DecisionStore(SQLiteBackend(self.path, clock=self.now_us))
        self.decider = Decider(arms(), self.store, reward_window=WINDOW, default_reward=0.0, seed=1)
        self.service = Service(self.decider, self.store)

    def stop(self) -> None:
        self.service.close()
        self.decider.close()
        self.store.close()

    def teardown(self) -> None:
        found = rebuild(self.store, write=False)
        self.stop()
        self.folder.cleanup()
        self.closer.stop()
        assert (found.decisions, found.differing) == (len(self.model.decisions), 0)
        assert (found.defaults, found.windows) == (len(self.model.defaults), 0)

    @rule(target=ids, task=TASKS, key=KEYS, mask=MASKS, defer=st.booleans())
    def decide(self, task: str, key: str | None, mask: list[bool] | None, defer: bool) -> Any:
        request = {"task": task, "key": key, "mask": mask, "defer": defer or None}
        request = {name: value for name, value in request.items() if value is not None}
        answer = post(self.service, "/v1/decide", request)
        assert answer.status == self.model.decide(request, answer), answer.body
        if answer.status != 200:
            return multiple()
        assert 0 < answer.json["propensity"] <= 1
        assert mask is None or mask[answer.json["action"]]
        return answer.json["id"]

    @rule(id=ids, value=VALUES)
    def reward(self, id: str, value: float) -> None:
        answer = post(self.service, "/v1/reward", {"id": id, "value": value})
        status, expected = self.model.reward(id, float(value))
        assert answer.status == status, answer.body
        assert status != 200 or answer.json == expected

    @rule(pairs=st.lists(st.tuples(ids, VALUES), max_size=5))
    def reward_batch(self, pairs: list[tuple[str, float]]) -> None:
        items = [{"id": id, "value": value} for id, value in pairs]
        answers = post(self.service, "/v1/reward:batch", items).json
        for (id, value), answer in zip(pairs, answers, strict=True):
            status, expected = self.model.reward(id, float(value))
            assert ("error" in answer) == (status != 200)
            assert status != 200 or answer == expected

    @rule(id=ids)
    def show(self, id: str) -> None:
        answer = post(self.service, "/v1/activate", {"id": id})
        if id not in self.model.decisions:
            assert answer.status == 404
            return
        assert (answer.status, answer.json) == (200, {"duplicate": self.model.activate(id)})

    @rule(chosen=st.lists(ids, max_size=5))
    def show_batch(self, chosen: list[str]) -> None:
        answers = post(self.service, "/v1/activate:batch", [{"id": id} for id in chosen]).json
        for id, answer in zip(chosen, answers, strict=True):
            if id in self.model.decisions:
                assert answer == {"duplicate": self.model.activate(id)}
            else:
                assert answer["error"]["code"] == "unknown_decision"

    @rule(task=TASKS)
    def erase(self, task: str) -> None:
        answer = call(self.service, "DELETE", f"/v1/tasks/{quote(task, safe='')}")
        assert (answer.status, answer.json["decisions"]) == (200, self.model.erase(task))
        for file in Path(self.folder.name).iterdir():
            assert len(task) < 4 or task.encode() not in file.read_bytes()

    @rule(seconds=st.sampled_from([1, 30, WINDOW, WINDOW + 1]))
    def wait(self, seconds: int) -> None:
        self.model.now += seconds

    @rule()
    def end_windows(self) -> None:
        due = self.model.due()
        assert self.store.unrewarded(self.model.now).due == len(due)
        assert self.decider.end_windows() == len(due)
        for id in due:
            self.model.end_window(id)

    @rule(request=WRONG_DECISIONS)
    def wrong_decision(self, request: Any) -> None:
        answer = post(self.service, "/v1/decide", request)
        assert answer.status == 422, answer.body
        assert answer.error["message"]

    @rule(id=ids, value=WRONG_VALUES)
    def wrong_reward(self, id: str, value: str) -> None:
        body = f'{{"id": {json.dumps(id)}, "value": {value}}}'.encode()
        answer = post(self.service, "/v1/reward", body)
        # Another value, possible or not, does not change a known reward.
        known = self.model.late if id in self.model.defaults else self.model.rewards
        expected = {400, 409, 422} if id in known else {400, 422}
        assert answer.status in (expected if id in self.model.decisions else {400, 404, 422})

    @rule(body=st.binary(max_size=30), path=st.sampled_from(["decide", "reward", "decide:batch"]))
    def garbage(self, body: bytes, path: str) -> None:
        hypothesis.assume(body.strip() != b"[]")
        assert post(self.service, f"/v1/{path}", body).status in (400, 422)

    @rule(id=st.sampled_from(["0" * 32, "", "x", "0" * 64]))
    def unknown(self, id: str) -> None:
        assert post(self.service, "/v1/reward", {"id": id, "value": 1}).status in (404, 422)
        assert post(self.service, "/v1/activate", {"id": id}).status in (404, 422)

    @rule(scale=st.sampled_from([1.0, 2.0, 3.0]))
    def activate(self, scale: float) -> None:
        self.decider.activate_prior(self.decider.upload_prior(arms(scale=scale)))
        self.scale = scale

    @rule()
    def restart(self) -> None:
        self.stop()
        self.start()

    @invariant()
    def nothing_else_changed(self) -> None:
        if not hasattr(self, "store"):
            return
        totals = self.store.totals()
        tasks = Counter(task for task, _ in self.model.decisions.values())
        model = self.model
        counts = (len(tasks), len(model.decisions), len(model.rewards), len(model.late))
        assert (totals.tasks, totals.decisions, totals.rewards, totals.late) == counts
        hidden = len(model.decisions) - len(model.shown)
        assert (totals.defaults, totals.deferred) == (len(model.defaults), hidden)

    @rule(task=TASKS)
    def look(self, task: str) -> None:
        answer = get(self.service, f"/v1/tasks/{quote(task, safe='')}")
        n = sum(1 for name, _ in self.model.decisions.values() if name == task)
        assert answer.status == (200 if n else 404)
        if n:
            belief = self.model.belief(arms(scale=self.scale), task)
            assert answer.json["decisions"] == n
            # Rounding of one update after the other against that of all at once.
            assert abs(belief.weights - answer.json["weights"]).max() < 1e-12
            assert abs(belief.mean_rewards() - answer.json["mean_rewards"]).max() < 1e-12


TestServiceMachine = ServiceMachine.TestCase
TestServiceMachine.settings = hypothesis.settings(max_examples=12, stateful_step_count=40)
