"""Posteriors of the actions of a task, for pages and clients."""

from __future__ import annotations

import numpy as np

from mixts import _random
from mixts._typing import Array
from mixts.belief import Belief
from mixts.families.arms import ArmFamily
from mixts.service.records import ActionPosteriors

_N_DRAWS = 2000
"""Draws from which the 5 and 95 % points are estimated, with a standard error of 0.5 %."""

_FEWEST_DRAWS, _MOST_NUMBERS = 200, 1_000_000
"""With thousands of actions, fewer draws keep the memory bounded."""


def action_posteriors(belief: Belief, offered: Array | None, best: int | None) -> ActionPosteriors:
    """Return means and intervals of the mean rewards of one task's actions.

    Parameters
    ----------
    belief
        Of one task, with the task axis.
    offered
        Rows of the actions; None for arms.
    best
        Only so many actions, those with the highest means; None for all.
    """
    (mean,) = belief.mean_rewards(offered)
    shown = np.arange(len(mean))
    if best is not None and best < len(mean):
        shown = np.sort(np.argsort(-mean, kind="stable")[:best])
    n_draws = max(_FEWEST_DRAWS, min(_N_DRAWS, _MOST_NUMBERS // len(shown)))
    # The same draws at every call: a page that is refreshed does not flicker.
    rng, same = _random.stream(0, "decider", "posterior"), np.zeros(n_draws, np.int64)
    latent = belief.sample_latent(rng, same)
    if offered is None:
        # Arms are independent given the component: draw those that are shown.
        learned = belief.posterior.family(0)
        assert isinstance(learned, ArmFamily)
        some = learned.arms(shown)
        means = some.mean_rewards(some.draw(rng, latent), None)
    else:
        draws = belief.sample_parameters(rng, latent, same)
        means = belief.prior.family.mean_rewards(draws, offered[shown])
    low, high = np.quantile(means, [0.05, 0.95], axis=0)
    return ActionPosteriors(
        tuple(mean[shown].tolist()), tuple(low.tolist()), tuple(high.tolist()),
        tuple(shown.tolist()), len(mean),
    )  # fmt: skip
