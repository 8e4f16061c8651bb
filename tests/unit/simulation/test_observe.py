"""Observers see every round before and after it is learned, and change no number."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from mixts.environments import BanditEnvironment
from mixts.errors import ParameterError
from mixts.simulation import Observer, Recorder, Round, RoundRecorder, simulate
from tests.unit.simulation.simulated_agents import FixedArm, prior

GAUSSIAN = prior("gaussian")
ENVIRONMENT = BanditEnvironment(GAUSSIAN)


class Sampled(RoundRecorder):
    def measure(self, round_: Round) -> dict[str, Any]:
        n = len(round_.chosen)
        nothing = round_.belief is None and round_.sampled is None
        return {
            "sampled": np.full(n, -1) if nothing else round_.sampled,
            "chosen": round_.chosen,
            "noise": round_.rng.normal(size=n),
        }


class Pulls(Recorder):
    """The number of pulls that the belief knows, before and after each update."""

    def __init__(self) -> None:
        self.before: list[Any] = []
        self.after: list[Any] = []

    def before_update(self, round_: Round) -> None:
        self.before.append(round_.belief.statistics.count.sum(axis=1))

    def after_update(self, round_: Round) -> None:
        self.after.append(round_.belief.statistics.count.sum(axis=1))

    def arrays(self) -> dict[str, Any]:
        return {"before": np.stack(self.before, 1), "after": np.stack(self.after, 1)}


class Watch(Observer):
    def __init__(self, recorder: type[Any]) -> None:
        self.recorder = recorder

    def start(self, agent: Any, problem: Any) -> Recorder:
        return self.recorder()


AGENTS = {"one": GAUSSIAN, "two": GAUSSIAN, "fixed": partial(FixedArm, 1)}
play = partial(simulate, AGENTS, ENVIRONMENT, 6, 7, 3, block_size=3)


def test_observers_change_nothing_and_travel(processes: object) -> None:
    alone, here = play(engine=1), play(engine=1, observe=Watch(Sampled))
    there = play(engine=processes, observe=Watch(Sampled))
    assert alone.observed == {}
    for name in AGENTS:
        np.testing.assert_array_equal(here.regret[name], alone.regret[name])
        np.testing.assert_array_equal(here.reward[name], alone.reward[name])
        assert here.observed[name]["chosen"].shape == (7, 6)
        for key, array in here.observed[name].items():
            np.testing.assert_array_equal(array, there.observed[name][key])
    noise = [here.observed[name]["noise"] for name in AGENTS]
    assert len(np.unique(noise)) == 3 * 7 * 6
    assert (here.observed["fixed"]["chosen"] == 1).all()
    assert (here.observed["fixed"]["sampled"] == -1).all()
    assert set(np.unique(here.observed["one"]["sampled"])) == {0, 1}


def test_rounds_are_seen_before_and_after_they_are_learned() -> None:
    results = play(engine=1, observe={"two": Watch(Pulls)})
    assert list(results.observed) == ["two"]
    observed = results.observed["two"]
    np.testing.assert_array_equal(observed["before"], np.tile(np.arange(6), (7, 1)))
    np.testing.assert_array_equal(observed["after"], observed["before"] + 1)


@pytest.mark.usefixtures("unchecked")
def test_what_cannot_be_observed() -> None:
    with pytest.raises(ParameterError, match=r"no agent 'three' to observe; agents: .*'one'"):
        play(observe={"three": Watch(Pulls)})
    with pytest.raises(ParameterError, match=r"observe must be an Observer.*got int"):
        play(observe=3)
    lambdas = Watch(lambda: None)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="the observer of 'one' cannot be sent"):
        play(observe={"one": lambdas}, engine=2)
