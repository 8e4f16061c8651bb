"""A program for ``test_compiling``: print the loops that requests load after a service is ready.

    python first_requests.py POLICY FAMILY small|large

Loading from the cache counts as well as compiling, so that the result does not depend on the cache.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from mixts_serve.decider import Decider
from mixts_serve.records import Decide, Reward
from mixts_serve.store import DecisionStore
from mixts_serve.versions import rehearse_decisions
from numba.core.dispatcher import Dispatcher

from mixts.agents.rehearsal import EXAMPLES
from mixts.families import Family
from mixts.prior import MixturePrior

N_OFFERED = 4


def requests(family: Family) -> Iterator[dict[str, Any]]:
    """Yield each kind of request: with and without prices, for a ranking, with a mask."""
    rng = np.random.default_rng(0)
    for n_actions in (N_OFFERED, 2, 1) if family.n_arms is None else (family.n_arms,):
        offer: dict[str, Any] = {}
        if family.n_arms is None:
            offer["actions"] = rng.normal(size=(n_actions, family.n_features)).tolist()
        prices = {"values": [2.0] * n_actions, "costs": [0.5] * n_actions}
        mask = [True] * (n_actions - 1) + [n_actions == 1]
        for money in ({}, {"values": prices["values"]}, {"costs": prices["costs"]}, prices):
            for top in ({}, {"top": 1}, {"top": min(2, n_actions - (n_actions > 1))}):
                for available in ({}, {"mask": mask}):
                    yield {**offer, **money, **top, **available}


def cases(policy: str, name: str, is_large: bool) -> Iterator[tuple[MixturePrior, dict[str, Any]]]:
    """Yield the priors of a family, each with all settings that decisions depend on."""
    for make in EXAMPLES[name]:
        prior = MixturePrior(make())
        if is_large:
            prior = prior.select([0, 1] * 10)
            if prior.family.n_arms is not None:
                prior = MixturePrior(prior.family.arms([0, 1, 2] * 5), prior.weights)
        horizons = (None,) if policy == "greedy" else (None, 50)
        yield from ((prior, {"horizon": horizon}) for horizon in horizons)


def run(policy: str, name: str, is_large: bool) -> list[str]:
    """Serve every kind of request with a family's examples; return the loops loaded meanwhile."""
    loaded: list[str] = []
    compile_or_load = Dispatcher.compile

    def note(self: Any, signature: Any) -> Any:
        loaded.append(f"{self.py_func.__module__}.{self.py_func.__qualname__}{signature}")
        return compile_or_load(self, signature)

    for prior, settings in cases(policy, name, is_large):
        with tempfile.TemporaryDirectory() as folder:
            store = DecisionStore(Path(folder) / "decisions.db")
            with store, Decider(prior, store, policy=policy, floor=0.01, **settings) as decider:
                rehearse_decisions(prior, decider.policy)
                Dispatcher.compile = note
                use(decider, prior.family)
                Dispatcher.compile = compile_or_load
    return loaded


def use(decider: Decider, family: Family) -> None:
    """Decide, reward and read: for a new task and for one with decisions, alone and together."""
    kinds = list(requests(family))
    for task in ("one", "two"):
        for request in kinds:
            decision = decider.decide(task, **request)
            decider.decide(task, **request)
            decider.reward(decision.id, 1)
        decider.task(task)
        decider.posterior(task)
        decider.posterior(task, best=1)
    made = decider.decide_many([Decide(f"task {k}", **kinds[k % 3]) for k in range(12)])
    decider.reward_many([Reward(decision.id, 1) for decision in made])
    decider.weights(["one", "two"])


if __name__ == "__main__":
    policy, name, size = sys.argv[1:]
    print(json.dumps(run(policy, name, size == "large")))
