"""Beyond the paper: other bounds, other policies, and how far the paper's results carry."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from mixts import MixturePrior
from mixts.agents import BayesUCB, Greedy, MixIDS, MixTS

ORDER = ("bounds", "policies", "optimum", "long_run", "riverswim")
"""Modules of the experiments, in the order of the report."""

PLAIN: dict[str, Any] = {"MixTS": MixTS, "MixIDS": MixIDS, "Greedy": Greedy, "BayesUCB": BayesUCB}
"""Policies that do not know the number of rounds, by name."""
INFORMED: dict[str, Any] = {"MixTS, horizon": MixTS, "MixIDS, horizon": MixIDS}
"""Policies that know the number of rounds (``horizon=n``), by name."""
NAMES = (*PLAIN, *INFORMED)


def policies_of(prior: MixturePrior, n_rounds: int, names: Mapping[str, Any]) -> dict[str, Any]:
    """Return specs of policies on one prior, for :func:`mixts.simulate`."""
    return {
        name: partial(kind, prior, **({"horizon": n_rounds} if name in INFORMED else {}))
        for name, kind in names.items()
    }
