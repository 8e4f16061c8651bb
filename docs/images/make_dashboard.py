"""Draw docs/images/dashboard.png: the dashboard of a simulated shop after two hours.

    python -m docs.images.make_dashboard

The two hours are simulated, so the clock of the service is replaced. Needs mixts-serve,
playwright and a Chromium.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
from mixts_serve import Decide, Decider, DecisionStore, Reward
from mixts_serve.store.sqlite import SQLiteBackend

import mixts
from serve.tests.unit.test_client_service import served

ITEMS = ("boots", "sneakers", "sandals", "jackets", "shirts", "hats", "bags", "belts")
LIKES = ((0, 3), (1, 4), (2, 6))
"""What customers of each kind like."""
SECONDS, STEP, N_VISITS, N_CUSTOMERS = 7200, 60, 45, 240


def shop() -> mixts.MixturePrior:
    """Return three kinds of customer who like different items."""
    mean = np.full((3, len(ITEMS)), 0.08)
    for kind, liked in zip(mean, LIKES, strict=True):
        kind[list(liked)] = 0.45, 0.3
    return mixts.MixturePrior(mixts.BernoulliArms(12 * mean, 12 * (1 - mean)), arm_names=ITEMS)


def fill(store: DecisionStore, prior: mixts.MixturePrior, now: list[float]) -> Decider:
    """Simulate visits and clicks; halfway, a prior with other weights is uploaded.

    ``now`` is the time of the store's clock, which goes on.
    """
    rng = np.random.default_rng(1)
    kinds, rates = prior.draw(rng, N_CUSTOMERS)
    service = Decider(prior, store, seed=1, reward_window=1800, default_reward=0)
    for step in range(SECONDS // STEP):
        now[0] += STEP
        customers = rng.integers(0, N_CUSTOMERS, N_VISITS)
        made = service.decide_many([Decide(f"customer {c + 1}") for c in customers])
        clicks = [
            Reward(decision.id, 1.0)
            for decision, customer in zip(made, customers, strict=True)
            if rng.random() < rates[customer, decision.action]
        ]
        service.reward_many(clicks)
        service.end_windows()
        if step == SECONDS // STEP // 2:
            weights = np.bincount(kinds, minlength=3) / N_CUSTOMERS
            better = mixts.MixturePrior(prior.family, weights, arm_names=ITEMS)
            service.upload_prior(better, activate=True)
    now[0] += STEP / 2  # the last minute has the visits of one step
    return service


def wait_for_agreements(service: Decider) -> None:
    """Wait until the service has compared all final rewards with the prior."""
    before = -1.0
    while (found := service.agreements()) is None or found.whole.decisions != before:
        before = -1.0 if found is None else found.whole.decisions
        time.sleep(6)


def photograph(address: str, path: Path) -> None:
    """Save a picture of the overview."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1200, "height": 2000})
        page.goto(f"{address}/?span=day")
        page.screenshot(path=path)
        browser.close()


if __name__ == "__main__":
    now = [time.time() - SECONDS]
    with (
        tempfile.TemporaryDirectory() as folder,
        DecisionStore(
            SQLiteBackend(Path(folder) / "decisions.db", clock=lambda: int(now[0] * 1e6))
        ) as store,
        fill(store, shop(), now) as service,
        served(service) as address,
    ):
        wait_for_agreements(service)
        photograph(address, Path(__file__).with_name("dashboard.png"))
