"""Requests for decisions, checked against the prior in force."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mixts import _checks
from mixts._typing import Array, Bool, Float
from mixts.errors import ActionError, MaskError
from mixts.families.linear_statistics import check_rows
from mixts.prior import MixturePrior
from mixts.service.encoding import request_digest
from mixts.service.records import Decide


@dataclass(frozen=True, slots=True)
class Rules:
    """What the operator chose."""

    floor: float
    window_us: int | None
    """How long after its decision a reward is learned from; None: always."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A checked request for a decision."""

    place: int
    """Which operation of the group."""
    task: str
    key: str | None
    actions: Float[Array, "K d"] | None
    n_actions: int
    mask: Bool[Array, " K"] | None
    """None: everything is available."""
    request: bytes


def checked_offer(place: int, decide: Decide, prior: MixturePrior, rules: Rules) -> Offer:
    """A request that can be decided on, or an error that says why not."""
    sets, n_actions = prior.family.action_sets(decide.actions, 1)
    if sets is not None:
        if sets.ndim != 2:
            raise ActionError(f"actions must be one set (K, d), got shape {sets.shape}")
        check_rows(sets, np.zeros(n_actions))
    mask = None
    if decide.mask is not None:
        mask = _checks.action_mask(decide.mask, 1, n_actions)[0]
    if prior.has_retired:
        mask = ~prior.retired if mask is None else mask & ~prior.retired
        if not mask.any():
            raise MaskError("mask leaves no action: all that it allows are retired")
    if rules.floor > 0:
        _check_floor(rules.floor, n_actions if mask is None else int(mask.sum()))
    request = b"" if decide.key is None else digest_of(decide)
    return Offer(place, decide.task, decide.key, sets, n_actions, mask, request)


def _check_floor(floor: float, n_available: int) -> None:
    if floor > 1 / n_available:
        raise ActionError(
            f"{n_available} actions cannot all have the floor of {floor:g}: offer at most "
            f"{int(1 / floor)}, or lower the floor"
        )


def stacked(
    offers: Sequence[Offer],
) -> tuple[Float[Array, "m K d"] | None, Bool[Array, "m K"] | None]:
    """The actions and masks of offers with as many actions, as an agent takes them."""
    actions = mask = None
    if offers[0].actions is not None:
        actions = np.stack([offer.actions for offer in offers if offer.actions is not None])
    if any(offer.mask is not None for offer in offers):
        everything = np.ones(offers[0].n_actions, bool)
        mask = np.stack([everything if o.mask is None else o.mask for o in offers])
    return actions, mask


def digest_of(decide: Decide) -> bytes:
    """What a request asks for, beside its task and key; the same for equal numbers."""
    if decide.actions is None and decide.mask is None:
        return _PLAIN
    try:
        actions = None if decide.actions is None else np.asarray(decide.actions, float)
        mask = None if decide.mask is None else np.asarray(decide.mask, bool)
    except (TypeError, ValueError):
        return b"malformed"
    return request_digest(actions, mask)


_PLAIN = request_digest(None, None)
