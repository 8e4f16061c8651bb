"""The bounds on other problems, at a small scale."""

from __future__ import annotations

import numpy as np
import pytest

from mixts import bounds
from studies.bounds import main, one_known_prior, sphere, tilted_prior


def test_the_linear_problem_is_the_one_described() -> None:
    prior = tilted_prior(0.3)
    assert prior.family.n_components == 12
    assert prior.family.full_covariances().shape == (12, 5, 5)
    assert np.linalg.eigvalsh(prior.family.full_covariances()).max() < 0.09
    actions = sphere(np.random.default_rng(0), 3)
    np.testing.assert_allclose(np.linalg.norm(actions, axis=-1), 1)
    # The worked numbers of the entropy bound and of Theorem 1.
    found = bounds.of(prior, 400, actions)
    assert found["entropy"] == pytest.approx(80.8, abs=0.05)
    assert found["Theorem 1, appendix"] == pytest.approx(1223, abs=0.5)


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    main(["one-known", "--runs", "3"])
    head, rule, *rows = capsys.readouterr().out.strip().split("\n")
    assert head == "| problem | regret | bounds | steps that hold |"
    assert rule == "|---|---|---|---|"
    assert len(rows) == 3
    assert "one-sided 14.11, best form 7.45; any policy at least 0.54" in rows[1]
    assert one_known_prior(0.4).weights.tolist() == [0.6, 0.4]
