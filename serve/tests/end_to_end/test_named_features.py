"""From logs with named features to a prior, a service, its log, and a prior again."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from mixts_serve import Decider, DecisionStore

import mixts
from mixts.cli import main

COLOURS = ("blue", "green", "red")


def write_log(path: Path, rng: np.random.Generator) -> None:
    """Write purchases of 40 users, half of whom mind the price."""
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["user", "price", "colour", "spent"])
        for user in range(40):
            for _ in range(15):
                price, colour = round(rng.uniform(20, 40), 2), COLOURS[rng.integers(3)]
                out.writerow([f"u{user}", price, colour, reward(rng, user, price, colour)])


def reward(rng: np.random.Generator, user: int, price: float, colour: str) -> float:
    slope = (-0.3, 0.1)[user % 2]
    value = 5 + slope * (price - 30) + (colour == "red") + 0.3 * rng.standard_normal()
    return round(float(value), 3)


def fit(*arguments: Any) -> mixts.MixturePrior:
    """Run ``mixts fit``; the last argument is the file of the prior."""
    options = ["--intercept", "--components", "2", "--held-out", "0", "--no-report", "--quiet"]
    assert main(["fit", *map(str, arguments[:-1]), *options, "--out", str(arguments[-1])]) == 0
    return mixts.MixturePrior.load(arguments[-1])


def test_a_service_log_is_fitted_again_as_it_is(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    write_log(tmp_path / "log.csv", rng)
    columns = ["--features", "price,colour", "--task", "user", "--reward", "spent"]
    first = fit(tmp_path / "log.csv", *columns, tmp_path / "first.json")
    assert first.features is not None
    assert first.features.names == ("intercept", "price", "colour=green", "colour=red")

    # The service decides about described actions; we keep a log of our own beside its store.
    store = tmp_path / "store.db"
    own = [["user", "price", "colour", "spent"]]
    with (
        DecisionStore(store) as opened,
        Decider(first, opened, seed=1) as decider,
    ):
        for t in range(120):
            user = t % 12
            offer = [
                {
                    "id": f"sku-{t}-{k}",
                    "features": {
                        "price": round(rng.uniform(20, 40), 2),
                        "colour": COLOURS[rng.integers(3)],
                    },
                }
                for k in range(4)
            ]
            decision = decider.decide(f"u{user}", actions=offer)
            assert decision.arm == f"sku-{t}-{decision.action}"
            taken = offer[decision.action]["features"]
            assert isinstance(taken, dict)
            value = reward(rng, user, taken["price"], taken["colour"])
            decider.reward(decision.id, value)
            own.append([f"u{user}", taken["price"], taken["colour"], value])
        state = decider.task("u1")
        assert state.ids == tuple(f"sku-109-{k}" for k in range(4))
        assert len(state.mean_rewards) == 4

    export = tmp_path / "export.parquet"
    assert main(["store", "export", str(store), str(export)]) == 0
    again = ["--features", "price,colour", "--task", "task", "--reward", "reward"]
    second = fit(export, *again, tmp_path / "second.json")
    with (tmp_path / "own.csv").open("w", newline="") as file:
        csv.writer(file).writerows(own)
    direct = fit(tmp_path / "own.csv", *columns, tmp_path / "direct.json")
    assert second.features == direct.features == first.features
    np.testing.assert_allclose(second.weights, direct.weights, rtol=1e-9)
    assert isinstance(second.family, mixts.LinearGaussian)
    assert isinstance(direct.family, mixts.LinearGaussian)
    np.testing.assert_allclose(second.family.mean, direct.family.mean, rtol=1e-9)
    np.testing.assert_allclose(second.family.covariance, direct.family.covariance, rtol=1e-7)

    # The second prior goes on from the statistics under the first one.
    with (
        DecisionStore(store) as opened,
        Decider(second, opened, seed=2) as decider,
    ):
        assert decider.prior_version == 2
        assert decider.task("u1").rewards == 10
