"""Work is limited, not only requests: large priors are refused, large operations cost more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mixts_serve import Decide, Decider, DecisionStore, Reward, offers, versions
from mixts_serve.dashboard.task import MOST_ACTIONS, task_page
from mixts_serve.http import app, protocol
from mixts_serve.http.protocol import Limits
from mixts_serve.offers import named_mask, offered_actions
from mixts_serve.records import Offered
from mixts_serve.rules import Policy
from mixts_serve.versions import Sizes, StatisticsCodec, check_size, logged_prior
from mixts_serve.writer import MAX_BATCH, MAX_WORK, SMALL

import mixts
from mixts.agents import Offer
from mixts.errors import ActionError, ParameterError
from mixts.families.arms import ArmPosterior
from serve.tests.unit.http.calls import JSON, FakeDecider, call, request, service


def arms(n_arms: int, n_components: int = 1) -> mixts.MixturePrior:
    ones = np.ones((n_components, n_arms))
    return mixts.MixturePrior(mixts.BernoulliArms(ones, 2 * ones))


def linear(n_features: int, n_components: int = 1) -> mixts.MixturePrior:
    mean = np.zeros((n_components, n_features))
    return mixts.MixturePrior(
        mixts.LinearGaussian(mean, np.ones(n_components), 1.0, covariance_type="spherical")
    )


def sizes(prior: mixts.MixturePrior) -> Sizes:
    return Sizes.of_prior(prior, StatisticsCodec(prior.family).n_bytes)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Decider]:
    """A decider with a prior of two arms and small limits."""
    with (
        DecisionStore(tmp_path / "decisions.db") as store,
        Decider(arms(2), store, policy="ts", seed=0, max_numbers=6) as decider,
    ):
        yield decider


@pytest.mark.parametrize(
    ("prior", "words"),
    [
        (arms(4, 2), "at most 6 numbers, .* 2 components, got 8: .* --max-numbers"),
        (arms(7), "at most 6 numbers, .* got 7"),
        (linear(2, 2), "at most 6 numbers, .* got 8"),
        (linear(3), "at most 6 numbers, .* got 9"),
    ],
)
def test_a_prior_that_is_too_large_is_refused(
    small: Decider, prior: mixts.MixturePrior, words: str
) -> None:
    with pytest.raises(ParameterError, match=words):
        small.upload_prior(prior)
    assert len(small.priors()) == 1


def test_a_stored_prior_that_is_too_large_is_not_activated(small: Decider) -> None:
    small._max_numbers = None
    version = small.upload_prior(arms(7))
    small._max_numbers = 6
    with pytest.raises(ParameterError, match="at most 6 numbers"):
        small.activate_prior(version)
    assert small.prior.family.n_arms == 2


def test_arms_are_not_added_beyond_the_limit(tmp_path: Path) -> None:
    named = arms(2).replace(arm_names=["a", "b"])
    with (
        DecisionStore(tmp_path / "decisions.db") as store,
        Decider(named, store, max_numbers=3) as decider,
    ):
        decider.change_arms(add=["c"])
        with pytest.raises(ParameterError, match="at most 3 numbers"):
            decider.change_arms(add=["d"])


def test_ten_thousand_arms_are_allowed() -> None:
    check_size(arms(10_000, 100), 1_000_000)
    check_size(linear(200, 20), 1_000_000)
    with pytest.raises(ParameterError, match="got 1,000,001"):
        check_size(arms(1_000_001), 1_000_000)


# -- sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prior", "actions", "is_small", "fits_a_batch"),
    [
        (arms(10, 6), None, True, True),
        (arms(1_000, 6), None, False, True),
        (arms(10_000, 6), None, False, False),
        (linear(5, 3), 10, True, True),
        (linear(2, 3), 500, True, True),
        (linear(2, 3), 10_000, False, False),
        (linear(200, 20), 10, False, True),
    ],
)
def test_the_size_of_a_decision(
    prior: mixts.MixturePrior, actions: int | None, is_small: bool, fits_a_batch: bool
) -> None:
    size = sizes(prior).of(Decide("a", None if actions is None else [[0.0]] * actions))
    assert (size <= SMALL, size <= MAX_BATCH) == (is_small, fits_a_batch)
    assert size < MAX_WORK
    assert sizes(prior).of(Reward("id", 1.0)) <= SMALL


def test_ordinary_operations_have_size_one() -> None:
    for operation in (Decide("a"), Reward("id", 1.0)):
        assert sizes(arms(10, 6)).of(operation) == 1
    assert sizes(linear(5, 3)).of(Decide("a", [[0.0]] * 10)) == 1


def test_prices_and_shown_actions_count_as_work() -> None:
    """Both are estimated from draws, which take longer than a belief."""
    decide, prices = sizes(arms(1_000, 6)), np.ones(1_000)
    plain = decide.of(Decide("a"))
    priced = decide.of(Decide("a", values=prices))
    assert priced == decide.of(Decide("a", costs=prices)) > 3 * plain
    assert decide.of(Decide("a", top=100)) == priced + 100
    assert sizes(arms(10_000, 6)).of(Decide("a", costs=prices)) < MAX_WORK
    assert sizes(arms(10_000, 100)).of(Decide("a", costs=prices)) > MAX_WORK
    assert sizes(arms(10, 6)).of(Decide("a", values=prices[:10])) <= SMALL


class CountedName(str):
    """A name that counts how often it is compared with another one, or looked up."""

    n_compared = 0

    def __eq__(self, other: object) -> bool:
        CountedName.n_compared += 1
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        CountedName.n_compared += 1
        return str.__hash__(self)


def test_names_are_not_compared_with_all_others() -> None:
    """10,000 ids, which one request may have, would be compared for seconds."""
    first, again = (tuple(CountedName(f"item {k}") for k in range(300)) for _ in range(2))
    prior = arms(300).replace(arm_names=first)
    CountedName.n_compared = 0
    assert named_mask(again, first).all()
    offer = Offer.of(prior, np.zeros(1, np.int64))
    offer.with_money(prior, dict.fromkeys(again, 1.0), None, first)
    with pytest.raises(ActionError, match="'item 0' twice"):
        offered_actions([Offered([1.0], name) for name in (*first, *again)], linear(1))
    assert CountedName.n_compared < 20 * 300


def test_large_requests_are_large_as_soon_as_a_decider_starts(tmp_path: Path) -> None:
    with (
        DecisionStore(tmp_path / "decisions.db") as store,
        Decider(linear(2), store, policy="ts", max_work=100) as decider,
        pytest.raises(ParameterError, match="at most 100 units of work are taken at once, got"),
    ):
        decider.decide_many([Decide("a", np.ones((2_000, 2)))] * 2)


def test_a_decision_with_too_much_work_is_refused(tmp_path: Path) -> None:
    with (
        DecisionStore(tmp_path / "decisions.db") as store,
        Decider(linear(2), store, policy="ts", max_work=100) as decider,
    ):
        with pytest.raises(ParameterError, match=r"at most 100 units .* offer fewer actions"):
            decider.decide("a", np.ones((2_000, 2)))
        assert decider.decide("a", np.ones((1_000, 2))).task == "a"
        assert store.totals().decisions == 1


# -- bodies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [[[1, 0]] * 1_000, [[1, 0]] * 999 + [[1]]])
def test_many_actions_are_kept_as_an_array(rows: list[list[int]]) -> None:
    """The array is refused or accepted as the list would be."""
    body = json.dumps({"task": "a", "actions": rows}).encode()
    read = protocol.read_decide(body, Limits())
    if len(rows[-1]) == 2:
        assert isinstance(read.actions, np.ndarray)
        assert offers.request_digest(read) == offers.request_digest(Decide("a", rows))
    else:
        with pytest.raises(ActionError):
            offers.checked_request(read, linear(2), Policy.checked("ts"))


def test_others_are_served_while_a_large_batch_is_decoded() -> None:
    """And only one large batch is decoded at a time."""
    decided = FakeDecider()
    body = json.dumps([{"task": "a", "actions": [[0, 1]] * 2_000}] * 20).encode()
    served = service(decided)
    order: list[str] = []

    async def send(name: str, path: str, content: bytes) -> None:
        headers = [JSON, ("content-length", str(len(content)))]
        host = "127.0.0.1:8321"
        answer = await request(served, "POST", path, content, headers, host, "127.0.0.1")
        assert answer.status == 200
        order.append(name)

    async def all_at_once() -> None:
        large = [send("large", "/v1/decide:batch", body) for _ in range(2)]
        await asyncio.gather(*large, send("small", "/v1/decide", b'{"task": "b"}'))

    asyncio.run(all_at_once())
    assert order[0] == "small"
    tasks = [operation.task for operation in decided.submitted]
    assert tasks == ["b", *["a"] * 40]


def test_the_event_loop_rests_between_two_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """For as long as it worked: the writer's thread needs the interpreter's lock."""
    slept: list[float] = []
    sleep = asyncio.sleep

    async def noted_sleep(seconds: float) -> None:
        slept.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr(app.asyncio, "sleep", noted_sleep)
    item = {"task": "a", "actions": [[0, 1]] * 5_000}
    for path, content in (
        ("decide:batch", [item] * 10),
        ("decide", item),
        ("decide", "x" * 40_000),
    ):
        slept.clear()
        call(service(FakeDecider()), "POST", f"/v1/{path}", json.dumps(content).encode(), [JSON])
        assert len(slept) == (11 if path == "decide:batch" else 1)
        assert min(slept) > 0


# -- pages ----------------------------------------------------------------------------------------


@pytest.fixture
def wide(tmp_path: Path) -> Iterator[tuple[Decider, DecisionStore]]:
    """A task of 20,000 arms."""
    rng = np.random.default_rng(1)
    family = mixts.BernoulliArms(*rng.uniform(1, 5, (2, 2, 20_000)))
    prior = mixts.MixturePrior(family)
    with (
        DecisionStore(tmp_path / "decisions.db") as store,
        Decider(arms(2), store, policy="ts", seed=0) as decider,
    ):
        decider.reward(decider.decide("a").id, 1)
        with store.backend.transaction() as transaction:
            shape = transaction.shape()
            assert shape is not None
            version, _ = transaction.add_prior(logged_prior(prior, 0))
            transaction.activate(version, 0, shape.replace("2", "20000"))
        yield decider, store


def test_the_page_of_a_task_draws_only_the_arms_that_it_shows(
    wide: tuple[Decider, DecisionStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """200 draws of all arms would take 32 MB, and of a million arms 1.6 GB."""
    decider, store = wide
    drawn: list[int] = []
    draw = mixts.BernoulliArms.draw

    def count(family: mixts.BernoulliArms, *arguments: Any) -> Any:
        found = draw(family, *arguments)
        drawn.append(found.size)
        return found

    monkeypatch.setattr(mixts.BernoulliArms, "draw", count)
    monkeypatch.delattr(ArmPosterior, "sample")
    page = task_page(decider, store, "a", now=0.0)
    assert f"These are the {MOST_ACTIONS} best of 20,000." in page
    assert drawn == [MOST_ACTIONS * 2_000]


@pytest.mark.parametrize("n_rows", [0, 1, 30, 60, 100, 3_000])
def test_the_work_of_a_table_is_learned_once(n_rows: int) -> None:
    """Otherwise a batch would be repeated for ever."""
    family = mixts.LinearBernoulli(np.zeros((3, 5)), np.stack([np.eye(5)] * 3))
    sizes = Sizes.of_prior(mixts.MixturePrior(family), 0)
    lengths = {f"task {i}": 8 * 7 * n_rows for i in range(200)}
    small = sizes.of(Decide("another"))
    first = sizes.learn(lengths)
    assert sizes.learn(lengths) == 0
    assert first == sum(sizes.of(Decide(task)) - small for task in lengths)
    assert first // 200 == (3 * n_rows // 40 if 3 * n_rows >= 80 else 0)


def test_tables_that_were_not_seen_for_long_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "MOST_TABLES", 2)
    family = mixts.LinearBernoulli(np.zeros((3, 5)), np.stack([np.eye(5)] * 3))
    sizes = Sizes.of_prior(mixts.MixturePrior(family), 0)
    for name in "abac":
        sizes.learn({name: 56 * 1_000})
    assert list(sizes.tables) == [hash("a"), hash("c")]
    sizes.learn({"a": 0})
    assert list(sizes.tables) == [hash("c")]


def test_other_families_have_no_tables() -> None:
    sizes = Sizes.of_prior(mixts.MixturePrior(mixts.BernoulliArms.uniform(3)), 0)
    assert sizes.learn({"task": 10**9}) == 0
    assert not sizes.tables
