"""Six services that learn from their own decisions: the next prior is no worse than the old one."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from mixts_paper.studies.refits import WORLDS, Loop, World, gain

from mixts._numbers import Estimate

FAST = ("clicks, 5 arms", "linear")
SIX = [name for name in WORLDS if name != "clicks with features"]  # which takes ten times as long
RUINED = ["clicks, 5 arms", "clicks, 40 arms", "ratings", "counts"]
"""Worlds in which a prior from the service's log alone is clearly worse."""


def some(names: list[str]) -> pytest.MarkDecorator:
    """Test these worlds; all but two take many seconds."""
    worlds = [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in names]
    return pytest.mark.parametrize("name", worlds)


@cache
def _world(name: str) -> World:
    return replace(WORLDS[name](), n_live=300, n_fresh=600)


@cache
def _loop(name: str) -> Loop:
    return Loop.of(_world(name), seed=1)


def _gain(name: str, way: str) -> Estimate:
    loop = _loop(name)
    return gain(_world(name), getattr(loop, way), loop.old, seed=1)


@some(SIX)
def test_a_refit_is_no_worse_than_the_prior_that_was_served(name: str) -> None:
    mean, error = _gain(name, "refitted")
    assert mean > -2 * error


@some(RUINED)
def test_the_log_of_a_service_alone_ruins_the_prior(name: str) -> None:
    """Arms that were hardly shown get the mean of those that were, the better ones."""
    mean, error = _gain(name, "alone")
    assert mean < -3 * error


@some(["clicks, 5 arms", "ratings"])
def test_what_was_hardly_shown_is_what_changes(name: str) -> None:
    """The old prior knows such an arm; without it, its mean is too high."""
    loop, truth = _loop(name), _world(name).truth
    assert loop.old.origin is not None
    pulls = loop.live.pulls.sum(axis=0)  # type: ignore[attr-defined]
    rare = int(pulls.argmin())
    true = truth.weights @ truth.family.parameter_means()[:, rare]
    found = {
        way: float(prior.weights @ prior.family.parameter_means()[:, rare])
        for way, prior in {"alone": loop.alone, "refitted": loop.refitted}.items()
    }
    assert abs(found["refitted"] - true) < abs(found["alone"] - true)
    assert np.isfinite(list(found.values())).all()
