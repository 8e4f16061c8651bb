"""Open Bandit Pipeline: exported decisions as ``bandit_feedback`` for its estimators.

Reads the Parquet file that ``mixts store export`` writes. Needs the extra ``table``; Open Bandit
Pipeline itself need not be installed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mixts._typing import Array, Float, Int
from mixts.errors import ParameterError
from mixts.logs.decisions import (
    FEATURES,
    DecisionLog,
    Source,
    check_missing,
    rewards_of,
    vectors_of,
)

__all__ = [
    "bandit_feedback",
]

_COLUMNS = ("action", "reward", "pscore", "action_dist", "weights", "prior_version", "n_actions")


def bandit_feedback(
    path_or_table: Source, *, missing_reward: float | None = None
) -> dict[str, Any]:
    """Return decisions in the form that Open Bandit Pipeline's estimators need.

    Every round must have the same number of actions.

    Parameters
    ----------
    path_or_table : str, path or table
        An exported file, or a table of pandas, polars or pyarrow that was read from it.
    missing_reward : float, optional
        The reward of decisions without one; they are left out, unless given.

    Returns
    -------
    dict
        Arrays by the names that Open Bandit Pipeline uses:

        - ``n_rounds``, ``n_actions``, and of each round ``action``, ``reward``, ``pscore`` and
          ``position`` (always 0: one action is chosen at a time);
        - ``pi_b`` (n_rounds, n_actions, 1): the probabilities that the action was drawn from;
        - ``context`` (n_rounds, n_latent): the components' weights at the decision. Each version
          of the prior has its own columns, which are 0 for decisions under another version;
        - ``action_context`` (n_actions, n_features): linear priors: the feature rows if every round
          offered the same, otherwise None; arms: the identity matrix;
        - ``action_features`` (n_rounds, n_actions, n_features): the rows that were offered, linear
          priors only;
        - ``n_without_reward``: the number of decisions that were left out.
    """
    log = DecisionLog(path_or_table)
    missing = check_missing(missing_reward)
    columns = [*_COLUMNS, *([FEATURES] if log.has_features else [])]
    parts = [_part(batch, missing, log.has_features) for batch in log.batches(columns)]
    kept = [part for part in parts if len(part["action"])]
    if not kept:
        raise ParameterError(
            f"{log.name} has {log.n_rows:,} decisions and no rewards: there is nothing to evaluate"
        )
    rounds = {name: np.concatenate([part[name] for part in kept]) for name in kept[0]}
    n_rounds, n_actions = len(rounds["action"]), _number_of_actions(rounds["n_actions"])
    feedback: dict[str, Any] = {
        "n_rounds": n_rounds,
        "n_actions": n_actions,
        "action": rounds["action"],
        "position": np.zeros(n_rounds, np.int64),
        "reward": rounds["reward"],
        "pscore": rounds["pscore"],
        "pi_b": rounds["pi_b"].reshape(n_rounds, n_actions, 1),
        "context": _contexts(rounds["weights"], rounds["n_latent"], rounds["prior_version"]),
        "action_context": np.eye(n_actions),
        "n_without_reward": log.n_rows - n_rounds,
    }
    if log.has_features:
        features = rounds[FEATURES].reshape(n_rounds, n_actions, -1)
        feedback["action_features"] = features
        same = bool((features == features[0]).all())
        feedback["action_context"] = features[0].copy() if same else None
    return feedback


def _part(batch: Any, missing: float | None, has_features: bool) -> dict[str, Array]:
    """Return the decisions of a batch that have a reward, with vectors concatenated."""
    rewards, known = rewards_of(batch, missing)
    batch = batch.filter(known)
    names = ("action", "pscore", "prior_version", "n_actions")
    part: dict[str, Array] = {name: np.array(batch.column(name)) for name in names}
    part["reward"] = rewards[known]
    part["pi_b"] = vectors_of(batch.column("action_dist"))[0]
    part["weights"], ends = vectors_of(batch.column("weights"))
    part["n_latent"] = np.diff(ends, prepend=0)
    if has_features:
        part[FEATURES] = vectors_of(batch.column(FEATURES).flatten())[0]
    return part


def _number_of_actions(counts: Int[Array, " n"]) -> int:
    distinct = np.unique(counts)
    if len(distinct) > 1:
        some = ", ".join(str(n) for n in distinct[:5])
        raise ParameterError(
            "Open Bandit Pipeline needs the same number of actions in every round, and these have "
            f"{some}{', ...' if len(distinct) > 5 else ''}: give the rows of one number, as in "
            f"pyarrow.parquet.read_table(path, filters=[('n_actions', '==', {distinct[-1]})])"
        )
    return int(distinct[0])


def _contexts(
    weights: Float[Array, " m"], lengths: Int[Array, " n"], versions: Int[Array, " n"]
) -> Float[Array, "n p"]:
    """Return the components' weights; each version of the prior has its own columns."""
    starts = np.cumsum(lengths) - lengths
    columns = []
    for version in np.unique(versions):
        rows = np.flatnonzero(versions == version)
        part = np.zeros((len(versions), lengths[rows[0]]))
        part[rows] = weights[starts[rows, None] + np.arange(lengths[rows[0]])]
        columns.append(part)
    return np.concatenate(columns, axis=1)
