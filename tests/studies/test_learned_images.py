"""``coldstart/images``: the same logs, two ways to learn a prior from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mixts.experiments import reproduce
from mixts.experiments.base import Measured, Setting
from mixts.experiments.features import ImageFeatures
from studies.coldstart import images as study


@pytest.fixture(scope="module")
def images() -> ImageFeatures:
    """Three classes, each with a feature of its own and two of noise."""
    rng = np.random.default_rng(0)

    def part(n: int) -> tuple[np.ndarray, np.ndarray]:
        labels = np.arange(n) % 3
        return np.concatenate([np.eye(3)[labels], np.zeros((n, 2))], axis=1) + 0.2 * rng.normal(
            size=(n, 5)
        ), labels

    return ImageFeatures(*part(300), *part(120))


def test_logs_of_rewards_are_noisy_and_those_of_labels_are_not(images: ImageFeatures) -> None:
    given = (images.train_features, images.train_labels)
    noisy = study.past_tasks(given, 30, "rewards", 1, "past")
    exact = study.past_tasks(given, 30, "labels", 1, "past")
    # A label is 1 for a third of the images; a reward is 0.9 / 3 + 0.1 * 2 / 3 on average.
    assert np.allclose(exact.squares / exact.n_observations, 1 / 3, atol=1e-9)
    mean = (noisy.squares / noisy.n_observations).mean()
    assert abs(mean - 0.3667) < 4 * np.sqrt(0.3667 * 0.6333 / noisy.n_observations.sum())
    # What least squares leave over is the noise of rewards, 0.3, and more than that of labels.
    left = {
        name: np.mean(one.factor[:, -1, -1] ** 2) for name, one in {"n": noisy, "e": exact}.items()
    }
    assert left["n"] > 2 * left["e"]


def test_one_covariance_where_there_are_few_tasks() -> None:
    assert study.covariance_type(1000, 10, 64) == "full"
    assert study.covariance_type(1000, 100, 100) == "tied"


def test_the_whole_experiment(
    images: ImageFeatures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "N_TASKS", 60)
    monkeypatch.setattr(study, "N_HELD_OUT", 20)
    monkeypatch.setattr(study, "N_IMAGES", 40)
    images.save(tmp_path / "images.npz")
    done = reproduce(
        ["studies.coldstart.images"], tmp_path / "out", n_runs=4, n_rounds=6, engine=1,
        features=tmp_path / "images.npz",
    )  # fmt: skip
    section = done.sections[0]
    assert len(section.claims) == 6
    assert [row[0] for row in section.tables[0].rows] == [
        "MixTS", "MixTS, two-stage", "TS, learned", "UniTS", "TS",
    ]  # fmt: skip
    # Three kinds of class are there: a mixture must explain held-out tasks better than one.
    evidence = [claim for claim in section.claims if "one-component" in claim.claim]
    assert [claim.verdict for claim in evidence] == ["holds", "holds"]


def test_a_mixture_that_is_worse_is_said_to_be(images: ImageFeatures) -> None:
    setting = Setting(3, 4, 1)
    latent = np.zeros(3, np.int64)
    names = study.AGENTS
    part = {"latent": latent}
    for i, name in enumerate(names):
        part |= {f"regret/{name}": np.zeros((3, 4)), f"reward/{name}": np.full((3, 4), 0.1 * i)}
        part[f"reward/{name}"] += 0.01 * np.arange(3)[:, None] * (i + 1)
    kept = {}
    for logs in study.LOGS:
        kept[f"scores-{logs}"] = {name: np.linspace(0, 0.1, 5) + i for i, name in enumerate(names)}
        kept[f"priors-{logs}"] = {f"{name}/noise": np.array(0.5) for name in names}
        kept[f"priors-{logs}"][f"{study.MIXTURE}/mean"] = np.zeros((3, 5))
    found = study.EXPERIMENT.analyse(Measured(setting, dict.fromkeys(study.LOGS, part), kept))
    assert set(found.verdicts.values()) == {"does not hold"}
