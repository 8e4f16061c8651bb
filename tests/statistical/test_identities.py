"""The identities of Algorithm 1 at every round, for every family.

Each test looks at one identity over all rounds at once: at most 20 x 24 deviations, none of which
may exceed the Bonferroni limit of about 5.3 standard errors. Regret would miss most of what these
catch: a wrong sampler can even score better at short horizons.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mixts import _program
from mixts.families import _core_linear
from tests.statistical import settings
from tests.statistical.identities import IDENTITIES, Record, play
from tests.statistical.standard_errors import assert_within

N_TASKS = 4000

RUNS: dict[str, Callable[[], Record]] = {
    "bernoulli": lambda: play(settings.bernoulli(), N_TASKS, 20, seed=101),
    "gaussian": lambda: play(settings.gaussian(), N_TASKS, 20, seed=102),
    "poisson": lambda: play(settings.poisson(), N_TASKS, 20, seed=103),
    "linear": lambda: play(settings.linear(0.3, noise_std=1.5), N_TASKS, 20, seed=104),
    "linear, dormant": lambda: play(settings.linear(0.7), N_TASKS, 20, seed=105),
    "linear, waking": lambda: often_dormant(settings.linear(0.3, scale=0.3), seed=106),
}


def often_dormant(setting: settings.Setting, seed: int) -> Record:
    """Components are dormant below a weight of 1e-4 already, and so wake now and then.

    Decisions ignore dormant components: that moves probabilities by 1e-4 at most, an eightieth of
    the standard error that 4,000 tasks give a probability of 1/2.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_core_linear, "DORMANT_LIMIT", 9.2)
        patch.setattr(_core_linear, "_DORMANT_MARGIN", 0.1)
        return play(setting, N_TASKS, 20, seed=seed)


# The run that wakes has everything that the other two linear ones have.
SLOW = ("linear", "linear, dormant")
PARAMS = [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in RUNS]


@pytest.fixture(scope="module", params=PARAMS)
def run(request: pytest.FixtureRequest) -> tuple[str, Record]:
    return request.param, RUNS[request.param]()


@pytest.mark.parametrize("identity", IDENTITIES)
def test_identity(run: tuple[str, Record], identity: str) -> None:
    assert_within(run[1][identity])


def test_components_are_dormant_and_wake(run: tuple[str, Record]) -> None:
    """The last two runs are what they are called."""
    name, record = run
    if _program.core is None:
        pytest.skip("no component is dormant in the plain program")
    if name in ("linear, dormant", "linear, waking"):
        assert record.n_dormant > 20_000
    if name == "linear, waking":
        assert record.n_woken > 100
