"""ArviZ: draws from a belief, with named axes, for its plots and summaries.

Needs the extra ``arviz``. ArviZ 1 (Python 3.12 and later) has an ``xarray.DataTree`` where earlier
versions have an ``InferenceData``; both have the same groups and variables.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from mixts._random import generator
from mixts._typing import Array, ArrayLike, Seed
from mixts.belief import Belief
from mixts.errors import MissingExtraError, ParameterError

__all__ = ["to_inference_data"]


def to_inference_data(
    belief: Belief,
    n: int = 1000,
    *,
    seed: Seed = None,
    tasks: ArrayLike | None = None,
    task_names: Sequence[str] | None = None,
    n_chains: int = 4,
) -> Any:
    """Draw from a belief, and return the draws as ArviZ takes them.

    Parameters
    ----------
    belief
        The belief about one task or many.
    n
        Number of draws of each chain. Draws are exact and independent.
    seed
        Seed of the draws.
    tasks
        Indices of some tasks; None: all tasks.
    task_names
        Names of these tasks; by default their indices.
    n_chains
        Number of chains, into which the draws are divided.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        The group ``posterior`` has the variables of :meth:`mixts.Belief.draws`; their axes are
        chain, draw, task (if there are many), and arm, feature, or state and action. The group
        ``constant_data`` has the exact ``weight`` and ``log_evidence`` of every component.

    Examples
    --------
    >>> import mixts
    >>> from mixts.bridges.arviz import to_inference_data
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
    >>> found = to_inference_data(prior.belief(n_tasks=3), seed=1)
    >>> found["posterior"]["mean_reward"].dims
    ('chain', 'draw', 'task', 'arm')
    """
    arviz = _imported()
    draws = belief.draws(generator(seed, "draws"), n, tasks, n_chains)
    single = belief.n_tasks is None
    index = np.zeros(1, np.int64) if single else np.arange(belief.n_tasks or 0)
    if tasks is not None:
        index = np.atleast_1d(np.asarray(tasks, np.int64))
    names = index if task_names is None else np.asarray(task_names)
    if len(names) != len(index) or (single and task_names is not None):
        raise ParameterError(
            f"task_names must be a name for each of {len(index)} tasks, got {task_names!r}"
        )
    of_task = [] if single else ["task"]
    exact = {"weight": belief.weights, "log_evidence": belief.log_evidence}
    if not single:
        exact = {name: array[index] for name, array in exact.items()}
    dims, coords = _axes(belief)
    dims = {name: [*of_task, *axes] for name, axes in dims.items()}
    if not single:
        coords["task"] = names
    if int(arviz.__version__.split(".")[0]) < 1:
        return arviz.from_dict(posterior=draws, constant_data=exact, dims=dims, coords=coords)
    return arviz.from_dict({"posterior": draws, "constant_data": exact}, dims=dims, coords=coords)


def _axes(belief: Belief) -> tuple[dict[str, list[str]], dict[str, Any]]:
    """Return the axes of each variable after chain, draw and task, and the labels of each axis."""
    prior, family = belief.prior, belief.prior.family
    dims = {"latent": [], "weight": ["component"], "log_evidence": ["component"]}
    coords: dict[str, Any] = {"component": _labels(prior.names, prior.n_components)}
    if family.plans:
        n_states, n_actions = family.statistics_shape
        dims |= {"mean_reward": ["state", "action"], "transition": ["state", "action", "next"]}
        coords |= {"state": np.arange(n_states), "action": np.arange(n_actions)}
        coords["next"] = np.arange(n_states)
    elif family.n_features is None:
        dims["mean_reward"] = ["arm"]
        coords["arm"] = _labels(prior.arm_names, *family.statistics_shape)
    else:
        names = None if prior.features is None else prior.features.names
        dims["coefficient"] = ["feature"]
        coords["feature"] = _labels(names, family.n_features)
    return dims, coords


def _labels(names: Sequence[str] | None, n: int) -> Array:
    return np.arange(n) if names is None else np.array(names)


def _imported() -> Any:
    try:
        with warnings.catch_warnings():
            # The last versions before 1 announce it.
            warnings.simplefilter("ignore", FutureWarning)
            import arviz
    except ImportError as error:
        raise MissingExtraError(
            "draws for ArviZ need arviz: pip install 'mixts[arviz]' (belief.draws needs nothing)"
        ) from error
    return arviz
