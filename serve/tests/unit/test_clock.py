"""The clock of reward windows follows the system's clock, but not its jumps."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import Path

import pytest
from mixts_serve import Decider, DecisionStore
from mixts_serve.http.app import Service
from mixts_serve.store import sqlite as clock_module
from mixts_serve.store import store as store_module
from mixts_serve.store.rebuild import rebuild
from mixts_serve.store.sqlite import SteadyClock

import mixts
from serve.tests.unit.http.calls import get

SECOND = 1_000_000_000
HOUR, DAY = 3600 * SECOND, 86_400 * SECOND


class Machine:
    """A system's clock that can jump, and a monotonic one that cannot."""

    def __init__(self) -> None:
        self.wall, self.monotonic = 1_700_000_000 * SECOND, 5 * SECOND
        self.clock = SteadyClock(lambda: self.wall, lambda: self.monotonic)

    def run(self, nanoseconds: int, jump: int = 0) -> int:
        """Let time go by, after a jump of the system's clock; return what the steady clock adds."""
        before = self.clock.now_us()
        self.wall += nanoseconds + jump
        self.monotonic += nanoseconds
        return 1000 * (self.clock.now_us() - before)


def test_it_is_the_systems_clock() -> None:
    machine = Machine()
    assert machine.clock.now_us() == machine.wall // 1000
    assert machine.run(HOUR) == pytest.approx(HOUR, abs=2000)
    assert machine.clock.now_us() == machine.wall // 1000


@pytest.mark.parametrize("jump", [DAY, -DAY])
def test_a_jump_is_followed_slowly(jump: int, caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    caplog.set_level(logging.WARNING, "mixts_serve")
    caplog.handler.setLevel(logging.WARNING)
    logging.getLogger("mixts_serve").addHandler(caplog.handler)
    try:
        assert machine.run(0, jump) == 0
        for _ in range(60):
            added = machine.run(SECOND)
            assert 0.9 * SECOND - 2000 <= added <= 1.1 * SECOND + 2000
    finally:
        logging.getLogger("mixts_serve").removeHandler(caplog.handler)
    messages = {record.getMessage() for record in caplog.records}
    (message,) = messages
    assert f"jumped {'forward' if jump > 0 else 'back'} by 86400 seconds" in message
    machine.run(12 * DAY)
    assert machine.clock.now_us() == machine.wall // 1000


def test_a_small_correction_is_followed_at_once(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    machine.run(SECOND, jump=-SECOND // 20)
    assert machine.clock.now_us() == machine.wall // 1000
    assert not caplog.records


@pytest.mark.usefixtures("unchecked")
def test_metrics_survive_jumps_of_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prior = mixts.MixturePrior(mixts.BernoulliArms.uniform(2))
    n = 0
    for back in (0, DAY):  # the second time after a restart, with a clock that was set back
        machine = Machine()
        machine.clock = SteadyClock(lambda: machine.wall - back, lambda: machine.monotonic)  # noqa: B023
        monkeypatch.setattr(clock_module, "_CLOCK", machine.clock)
        monkeypatch.setattr(store_module.time, "time", lambda: (machine.wall - back) / SECOND)  # noqa: B023
        with (
            DecisionStore(tmp_path / "decisions.db") as store,
            Decider(prior, store) as decider,
            closing(Service(decider, store)) as service,
        ):
            for jump in (0, DAY, 0, -3 * DAY, 0, 2 * HOUR):
                machine.run(3 * HOUR, jump)
                decider.reward(decider.decide("a").id, 1)
                n += 1
                text = get(service, "/metrics").body.decode()
                assert f"mixts_store_decisions {float(n)}" in text
                assert f"mixts_store_rewards {float(n)}" in text
            assert rebuild(store, write=False).counts == 0
