"""Verdicts follow from numbers: the analyses given made-up results, good and bad."""

from __future__ import annotations

import numpy as np
import pytest

import mixts
from mixts.environments import RiverSwim
from mixts.experiments import Findings, Measured, Setting
from mixts.experiments.paper.images import TUNED
from mixts.experiments.paper.images import analysis as images
from mixts.experiments.paper.riverswim import agents_of
from mixts.experiments.paper.riverswim import analysis as riverswim
from mixts.experiments.parts import TruthPart

RUNS, ROUNDS = 6, 300
AGENTS = ["MixTS", "UniTS", "TS", "Exp4", "CorralExp4", *TUNED["Exp4"], *TUNED["CorralExp4"]]


def jitter(seed: int, shape: tuple[int, int]) -> np.ndarray:
    """So that differences have errors."""
    return 1e-3 * np.random.default_rng(seed).normal(size=shape)


def image_findings(early: float, later: float) -> Findings:
    """MixTS earns so much more than everybody else in the first hundred rounds, and after."""
    arrays = {"latent": np.zeros(RUNS, int)}
    for i, name in enumerate(AGENTS):
        reward = 0.4 + jitter(i, (RUNS, ROUNDS))
        if name == "MixTS":
            reward[:, :100] += early
            reward[:, 100:] += later
        arrays |= {f"reward/{name}": reward, f"regret/{name}": 0.9 - reward}
    rng = np.random.default_rng(0)
    kept = {
        "prior": {"mean": np.eye(3)},
        "coefficients": {"coefficients": rng.normal(size=(9, 3)), "tasks": np.arange(9) % 3},
    }
    tuned = {kind: tuple(variants) for kind, variants in TUNED.items()}
    return images.analyse(Measured(Setting(RUNS, ROUNDS, 1), {"agents": arrays}, kept), tuned)


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
    claims = image_findings(early, later).claims
    assert [claim.verdict for claim in claims[:2]] == [greatly] * 2
    assert [claim.verdict for claim in claims[2:]] == [outperforms] * 4


def river_findings(
    regrets: dict[str, float], truth: float, widths: float = 1e5, missed: bool = False
) -> Findings:
    """Agents that lose so much in every episode, and the probability of the true current."""
    arrays = {"latent": np.zeros(RUNS, int)}
    for i, name in enumerate(agents_of(RiverSwim())):
        regret = regrets.get(name, 1.0) + jitter(i, (RUNS, ROUNDS))
        arrays |= {f"regret/{name}": regret, f"reward/{name}": 1 - regret}
    parts = {
        "agents": arrays,
        "current": {"truth": np.full((RUNS, 20), truth)},
        "widths": {
            "widths": np.full(RUNS, widths),
            "missed": np.full(RUNS, missed),
            "excluded": np.full(RUNS, missed),
        },
    }
    return riverswim.analyse(Measured(Setting(RUNS, ROUNDS, 1), parts), RiverSwim(), 30.0)


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
    claims = river_findings({"MixTS": mine}, truth).claims
    assert [claim.verdict for claim in claims[:3]] == verdicts


def test_theorem_2_is_compared_with_the_regret() -> None:
    (claim,) = (c for c in river_findings({"MixTS": 1e5}, 1.0).claims if c.place == "Thm 2")
    assert claim.verdict == "does not hold"


@pytest.mark.parametrize(
    ("widths", "missed", "verdicts"),
    [
        (1e5, False, ["holds", "holds"]),
        (1e7, False, ["does not hold", "holds"]),
        (1e5, True, ["holds", "does not hold"]),
    ],
)
def test_lemmas_of_episodes(widths: float, missed: bool, verdicts: list[str]) -> None:
    claims = river_findings({}, 1.0, widths, missed).claims
    found = [claim.verdict for claim in claims if claim.place.startswith("Lemma")]
    assert found == verdicts


def test_the_truth_is_that_of_the_simulations_runs() -> None:
    river = RiverSwim(4, horizon=5)
    seen: list[np.ndarray] = []

    class Recorded(mixts.MixTS):
        def __init__(self, n_tasks: int, seed: object, latent: np.ndarray) -> None:
            super().__init__(river.prior, n_tasks, seed)
            self.truth = latent

        def update(self, *told: object, **how: object) -> None:
            super().update(*told, **how)
            seen.append(self.belief.weights[np.arange(len(self.truth)), self.truth])

    mixts.simulate({"MixTS": Recorded}, river, 6, 5, 3, 1, block_size=5)
    part = TruthPart(river.prior, river, 6, 5, 3, block_size=5)
    np.testing.assert_array_equal(part.play(0)["truth"], np.stack(seen, axis=1))
