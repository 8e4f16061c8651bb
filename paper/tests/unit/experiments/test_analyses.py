"""Verdicts follow from numbers: the analyses given made-up results, good and bad."""

from __future__ import annotations

import numpy as np
import pytest
from mixts_paper.experiments import Measured, Setting
from mixts_paper.experiments.paper import images, riverswim
from mixts_paper.experiments.paper.images import TUNED
from mixts_paper.experiments.paper.riverswim import TruthObserver, agents_of

import mixts
from mixts.environments import RiverSwim

RUNS, ROUNDS = 6, 300
AGENTS = ["MixTS", "UniTS", "TS", "Exp4", "CorralExp4", *TUNED["Exp4"], *TUNED["CorralExp4"]]


def jitter(seed: int, shape: tuple[int, int]) -> np.ndarray:
    """So that differences have errors."""
    return 1e-3 * np.random.default_rng(seed).normal(size=shape)


def image_verdicts(early: float, later: float, spread: float = 0.0) -> dict[str, str]:
    """MixTS earns so much more than everybody else in the first hundred rounds, and after."""
    arrays = {"latent": np.zeros(RUNS, int)}
    for i, name in enumerate(AGENTS):
        reward = 0.4 + jitter(i, (RUNS, ROUNDS))
        if name == "MixTS":
            # The same mean early, with a standard error of about the spread over runs.
            reward[:, :100] += early + spread * np.linspace(-1, 1, RUNS)[:, None]
            reward[:, 100:] += later
        arrays |= {f"reward/{name}": reward, f"regret/{name}": 0.9 - reward}
    rng = np.random.default_rng(0)
    kept = {
        "prior": {"mean": np.eye(3)},
        "coefficients": {"coefficients": rng.normal(size=(9, 3)), "tasks": np.arange(9) % 3},
    }
    measured = Measured(Setting(RUNS, ROUNDS, 1), {"agents": arrays}, kept)
    return dict(images.EXPERIMENT.analyse(measured).verdicts)


@pytest.mark.parametrize(
    ("early", "later", "greatly", "outperforms"),
    [
        (0.3, 0.1, "holds", "holds"),
        (0.05, 0.02, "direction only", "holds"),
        (0.1, 0.3, "does not hold", "holds"),
        (-0.3, -0.1, "does not hold", "does not hold"),
        (-0.1, -0.3, "does not hold", "does not hold"),
    ],
)
def test_images(early: float, later: float, greatly: str, outperforms: str) -> None:
    verdicts = image_verdicts(early, later)
    assert {verdicts.pop(f"great/{name}") for name in ("UniTS", "TS")} == {greatly}
    assert len(verdicts) == 4
    assert set(verdicts.values()) == {outperforms}


@pytest.mark.parametrize("early", [images.GREAT - 1e-3, images.GREAT + 1e-3])
def test_greatly_does_not_depend_on_the_last_digit(early: float) -> None:
    """A mean on either side of the threshold, within its error: the verdict is the same."""
    assert image_verdicts(early, 0.01, spread=0.02)["great/UniTS"] == "undecided"


def river_verdicts(
    regrets: dict[str, float], truth: float, widths: float = 1e5, missed: bool = False
) -> dict[str, str]:
    """Agents that lose so much in every episode, and the probability of the true current."""
    arrays = {"latent": np.zeros(RUNS, int)}
    for i, name in enumerate(agents_of(RiverSwim())):
        regret = regrets.get(name, 1.0) + jitter(i, (RUNS, ROUNDS))
        arrays |= {f"regret/{name}": regret, f"reward/{name}": 1 - regret}
    parts = {
        "agents": arrays,
        "current": {
            "latent": np.zeros(RUNS, int),
            "regret/MixTS": np.zeros((RUNS, 20)),
            "observed/MixTS/truth": np.full((RUNS, 20), truth),
        },
        "widths": {
            "widths": np.full(RUNS, widths),
            "missed": np.full(RUNS, missed),
            "excluded": np.full(RUNS, missed),
        },
    }
    measured = Measured(Setting(RUNS, ROUNDS, 1), parts)
    return dict(riverswim.EXPERIMENT.analyse(measured).verdicts)


@pytest.mark.parametrize(
    ("mine", "truth", "verdicts"),
    [
        (0.05, 0.999, ["holds", "holds", "holds"]),
        (0.05, 0.5, ["holds", "holds", "does not hold"]),
        (0.9, 0.999, ["direction only", "direction only", "does not hold"]),
        (1.1, 0.999, ["does not hold", "does not hold", "does not hold"]),
    ],
)
def test_riverswim(mine: float, truth: float, verdicts: list[str]) -> None:
    found = river_verdicts({"MixTS": mine}, truth)
    names = ("great/PSRL", "great/PSRL, neighbours", "current")
    assert [found[name] for name in names] == verdicts


def test_theorem_2_is_compared_with_the_regret() -> None:
    assert river_verdicts({"MixTS": 1e5}, 1.0)["bound"] == "does not hold"


@pytest.mark.parametrize(
    ("widths", "missed", "verdicts"),
    [
        (1e5, False, ["holds", "holds"]),
        (1e7, False, ["does not hold", "holds"]),
        (1e5, True, ["holds", "does not hold"]),
    ],
)
def test_lemmas_of_episodes(widths: float, missed: bool, verdicts: list[str]) -> None:
    found = river_verdicts({}, 1.0, widths, missed)
    assert [found["lemma6"], found["lemma7"]] == verdicts


def test_the_truth_is_that_of_the_simulations_runs() -> None:
    river = RiverSwim(4, horizon=5)
    seen: list[np.ndarray] = []

    class Recorded(mixts.MixTS):
        def __init__(self, n_tasks: int, seed: object, latent: np.ndarray) -> None:
            super().__init__(river.prior, n_tasks, seed)
            self.truth = latent

        def update(self, *feedback: object, **how: object) -> None:
            super().update(*feedback, **how)
            seen.append(self.belief.weights[np.arange(len(self.truth)), self.truth])

    mixts.simulate({"MixTS": Recorded}, river, 6, 5, 3, 1, block_size=5)
    observed = mixts.simulate(
        {"MixTS": river.prior}, river, 6, 5, 3, 1, block_size=5, observe=TruthObserver()
    ).observed["MixTS"]["truth"]
    np.testing.assert_array_equal(observed, np.stack(seen, axis=1))
    assert observed[:, -1].mean() > observed[:, 0].mean()
