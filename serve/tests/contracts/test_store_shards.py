"""A store that has a part of all tasks, on every database."""

from __future__ import annotations

import pytest
from mixts_serve import Decide, Decider, Decision, DecisionStore
from mixts_serve.shards import Shard, slot_of, slot_of_id
from msgspec.structs import replace

from mixts.errors import ParameterError
from serve.tests.contracts.stores import Opener, arms, decide_and_reward
from serve.tests.contracts.test_store_made import log, made

HALVES = Shard(1, 2), Shard(2, 2)
NAMES = [f"visitor {i}" for i in range(40)]
MINE = [name for name in NAMES if HALVES[0].holds(name)]
OTHERS = [name for name in NAMES if HALVES[1].holds(name)]


def test_a_shard_refuses_the_tasks_of_others(store: DecisionStore) -> None:
    with Decider(arms(), store, seed=1, shard="1/2") as decider:
        results = decider.decide_many([Decide(name) for name in NAMES])
        refused = [n for n, r in zip(NAMES, results, strict=True) if isinstance(r, ParameterError)]
        assert refused == OTHERS
        match = f"{OTHERS[0]}' belongs to shard 2/2, and this service has shard 1/2"
        with pytest.raises(ParameterError, match=match):
            decider.decide(OTHERS[0])
        with pytest.raises(ParameterError, match="belongs to shard 2/2"):
            decider.erase(OTHERS[0])
        (error,) = log(decider, made(store.now(), task=OTHERS[0]))
        assert isinstance(error, ParameterError)
        (error,) = log(decider, made(store.now(), task=MINE[0]))
        assert isinstance(error, ParameterError)
        assert f"must end with {slot_of(MINE[0]).hex()}, the slot of the task" in str(error)
        one = made(store.now(), task=MINE[1])
        (logged,) = log(decider, replace(one, id=one.id[:-4] + slot_of(MINE[1]).hex()))
        assert isinstance(logged, Decision)
        assert decider.erase(MINE[0]).decisions == 1
        assert store.totals().tasks == len(MINE) - 1


def test_ids_name_the_slot_of_their_task(store: DecisionStore) -> None:
    with Decider(arms(), store, seed=1) as decider:
        for name in NAMES[:5]:
            ids = [shown.id for shown in decider.decide(name, top=2).shown]
            assert {slot_of_id(id) for id in ids} == {slot_of(name)}


def test_a_store_remembers_its_shard(opened: Opener) -> None:
    store = opened()
    with Decider(arms(), store, shard="1/2"):
        pass
    with Decider(None, store) as decider:
        assert decider.rules.shard == HALVES[0]
        with pytest.raises(ParameterError, match="belongs to shard 2/2"):
            decider.decide(OTHERS[0])
    for wrong in ("2/2", "1/3", "4/4"):
        with (
            pytest.raises(ParameterError, match=rf"tasks of shard 1/2, not those of {wrong}"),
            Decider(None, store, shard=wrong),
        ):
            pass
    with Decider(None, opened()) as decider:
        assert decider.rules.shard == HALVES[0], "nothing has changed"


def test_a_store_with_tasks_of_others_becomes_no_shard(store: DecisionStore) -> None:
    with Decider(arms(), store) as decider:
        decide_and_reward(decider, MINE[0], [1.0])
        decide_and_reward(decider, OTHERS[0], [1.0])
    match = f"cannot become shard 1/2: it has tasks of other shards, such as '{OTHERS[0]}'"
    with pytest.raises(ParameterError, match=match), Decider(None, store, shard="1/2"):
        pass
    with Decider(None, store) as decider:
        assert decider.rules.shard is None
        decider.erase(OTHERS[0])
    with Decider(None, store, shard="1/2") as decider:
        assert decider.task(MINE[0]).rewards == 1


def test_a_shard_is_divided_into_parts_of_it(store: DecisionStore) -> None:
    with Decider(arms(), store, shard="1/2") as decider:
        decider.decide_many([Decide(name) for name in MINE])
    half = Shard(2, 4)
    with (
        pytest.raises(ParameterError, match="cannot become shard 2/4"),
        Decider(None, store, shard="2/4"),
    ):
        pass
    with Decider(None, store) as decider:
        for name in MINE:
            if not half.holds(name):
                decider.erase(name)
    with Decider(None, store, shard="2/4"):
        pass
    with pytest.raises(ParameterError, match="not those of 1/2"), Decider(None, store, shard="1/2"):
        pass
