"""No client without a token may fill the memory, or keep other clients waiting."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from serve.tests.attacks.attacks import MEGABYTE, Attack, Harm, attacks, suffer

HELD_BY_A_PROXY = ("silent sockets", "requests sent byte by byte")
"""Attacks that need one (``test_proxy``): connections are taken until they time out."""


def held(unread: int, n_bytes: int) -> list[Attack]:
    """Return the attacks that the service holds alone."""
    found = attacks(silent=0, unread=unread, slow=0, n_bytes=n_bytes)
    return [attack for attack in found if attack.name not in HELD_BY_A_PROXY]


SMALL = held(unread=10, n_bytes=4 * MEGABYTE)
FULL = held(unread=50, n_bytes=24 * MEGABYTE)
CONNECTIONS = 100

MOST_MEGABYTES = {"small": 10.0, "full": 40.0}
"""Before there were limits, attacks took up to gigabytes."""
MOST_SECONDS = 2.0
"""An honest request takes milliseconds; a test machine may pause."""


@dataclass
class Victim:
    process: subprocess.Popen[str]
    port: int

    def suffer(self, attack: Attack, seconds: float) -> Harm:
        return suffer(attack, ("127.0.0.1", self.port), [self.process.pid], seconds)


@contextmanager
def started(connections: int) -> Iterator[Victim]:
    process = subprocess.Popen(
        [sys.executable, "-m", "serve.tests.attacks.victim", str(connections)],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    yield Victim(process, int(process.stdout.readline()))
    process.terminate()
    assert process.wait(30) == 0
    process.stdout.close()


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    with started(CONNECTIONS) as one:
        yield one


@pytest.mark.skipif(sys.platform != "linux", reason="measures memory by /proc")
@pytest.mark.parametrize("attack", SMALL, ids=lambda attack: attack.name)
def test_an_attack_harms_nobody(victim: Victim, attack: Attack) -> None:
    harm = victim.suffer(attack, 0.5)
    assert harm.grown < MOST_MEGABYTES["small"], harm
    assert harm.delay < MOST_SECONDS, harm


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="measures memory by /proc")
@pytest.mark.parametrize("attack", FULL, ids=lambda attack: attack.name)
def test_a_large_attack_harms_nobody(attack: Attack) -> None:
    with started(CONNECTIONS) as victim:  # anew: freed memory would hide what is taken
        harm = victim.suffer(attack, 10.0)
    assert harm.grown < MOST_MEGABYTES["full"], harm
    assert harm.delay < MOST_SECONDS, harm
