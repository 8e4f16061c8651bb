"""Sentences about a check agree with its numbers, and advice is never praise while one fails."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import mixts
from mixts.diagnostics import Earnings, PolicyComparison, advise
from mixts.learning import PriorCheck
from mixts.learning.findings import findings
from mixts.learning.measures import Calibration, Evidence, Surprise, Usage
from mixts.logs import LogWarning
from mixts.logs.fitted import Fit
from mixts.pages.policies import policy_verdict


def checks() -> st.SearchStrategy[dict[str, Any]]:
    """Settings of :func:`made`."""
    return st.fixed_dictionaries({
        "seed": st.integers(0, 2**32 - 1),
        "n_tasks": st.integers(1, 300),
        "n_predictions": st.integers(0, 500),
        "shape": st.sampled_from([(1, 1), (0.6, 0.6), (2, 2), (1.3, 1), (1, 1.2), (30, 30)]),
        "gain": st.sampled_from([-1.0, -0.1, 0.0, 0.1, 1.0]),
        "surprising": st.sampled_from([0.0, 0.01, 0.03, 0.3]),
        "n_impossible": st.sampled_from([0, 0, 0, 1, 3]),
    })  # fmt: skip


def made(
    seed: int, n_tasks: int, n_predictions: int, shape: tuple[float, float], gain: float,
    surprising: float, n_impossible: int,
) -> PriorCheck:  # fmt: skip
    """Return numbers of a check that may be right or wrong in every way."""
    rng = np.random.default_rng(seed)
    n = np.full(n_tasks, 5)
    own = rng.normal(gain, 1, n_tasks)
    own[:n_impossible] = -np.inf
    p_value = np.where(rng.random(n_tasks) < surprising, 0.001, rng.uniform(0.02, 1, n_tasks))
    p_value[np.isneginf(own)] = 0
    score = np.where(np.isneginf(own), -np.inf, 0.0)
    zeros = np.zeros(n_tasks)
    weights = rng.dirichlet([1, 1, 0.1])
    found = n_tasks * rng.dirichlet([1, 1, 0.1])
    prior = mixts.MixturePrior(mixts.BernoulliArms(np.ones((3, 2)), np.ones((3, 2))), weights)
    return PriorCheck(
        prior,
        n,
        evidence=Evidence(
            {"this prior": own, "UniTS": rng.normal(0, 1, n_tasks), "TS, flat": zeros}, n
        ),
        calibration={
            "rewards": Calibration(
                "rewards", rng.beta(*shape, n_predictions), np.zeros(n_predictions, int)
            )
        },
        surprise=Surprise(score, zeros, zeros + 1, p_value, zeros, n),
        usage=Usage(("a", "b", "c"), weights, n_tasks, found, np.ones(3)),
        component=np.zeros(n_tasks, int),
    )


def fit_with(check: PriorCheck | None, converged: bool = True, faulty: bool = False) -> Fit:
    """Return a fit of which only the facts for the advice are known."""
    fit = object.__new__(Fit)
    warnings = (LogWarning("copies", "Every row occurs twice."),) if faulty else ()
    learned, prior = SimpleNamespace(converged=converged), SimpleNamespace(features=None)
    known = {"check": check, "warnings": warnings, "learned": learned, "prior": prior}
    fit.__dict__.update(known)
    return fit


def replayed(gain: float, missed: float = 0.0) -> PolicyComparison:
    """Return a replay in which IDS earned so many standard errors more than the bestseller."""
    noise = np.random.default_rng(1).standard_normal(40)
    noise = (noise - noise.mean()) / noise.std(ddof=1)
    rewards = {"bestseller": 5 + noise, "ids": 5 + 2 * noise + gain / np.sqrt(40)}
    lost = dict.fromkeys(rewards, np.full(40, missed))
    return PolicyComparison((Earnings(5, rewards, noise, 2.0, "x", lost),), {5: 40}, 40)


def paying() -> PolicyComparison:
    return replayed(5)


CASES = {
    "gain": replayed(2.1),
    "unclear": replayed(1.9),
    "loss": replayed(-2.1),
    "none": PolicyComparison((), {5: 7, 10: 0}, 120),
    "restricted gain": replayed(2.1, missed=1.0),
    "restricted loss": replayed(-2.1, missed=1.0),
    "adaptive gain": replace(replayed(2.1), adaptive=True),
    "adaptive loss": replace(replayed(-2.1), adaptive=True),
}


@pytest.mark.parametrize("checked", ["use", "caution", "no"])
@pytest.mark.parametrize("outcome", CASES)
def test_the_verdict_walks_through_all_cases(outcome: str, checked: str) -> None:
    """A replay or none, a gain or none, choices restricted or not; checks pass, doubt or fail.

    No sentence is surer than its evidence, and none contradicts another.
    """
    found, order = CASES[outcome], ["use", "caution", "no"]
    check = made(1, 200, 400, (1, 1), -1.0 if checked == "no" else 1.0, 0.0, 0)
    fit = fit_with(check, converged=checked != "caution")
    assert advise(fit, paying()).answer == checked
    advice = advise(fit, found)
    allowed = {"gain": "use", "loss": "no"}.get(outcome, "caution")
    assert advice.answer == max(checked, allowed, key=order.index)
    text = " ".join([str(advice), *policy_verdict(found, usable=advice.answer != "no")])
    assert ("Use this prior: " in text) == (outcome == "gain" and checked == "use")
    # A policy is to be used only where its gain was measured, and from a prior that may be used.
    assert ("Use IDS" in text) == (outcome == "gain" and checked != "no")
    assert ("Use the bestseller" in text) == (outcome == "loss")
    assert ("no policy clearly earned more" in text) == (outcome == "unclear" and checked != "no")
    assert ("±" in text) == (outcome != "none")
    weak = outcome.startswith(("restricted", "adaptive"))
    assert ("cannot tell what live decisions gain" in text) == weak


@settings(max_examples=150, deadline=None)
@given(checks())
def test_sentences_agree_with_their_numbers(settings: dict[str, Any]) -> None:
    check = made(**settings)
    first, *others = findings(check)
    text = " ".join(others)
    for name in ("UniTS", "TS, flat"):
        mean, error = check.evidence.gain(name)
        known = bool(len(check.surprise.impossible)) or not np.isfinite(error)
        if not known:
            word = "better than" if mean > 2 * error else "no different from"
            word = "worse than" if mean < -2 * error else word
            assert re.search(rf"{word} [^;]*{name}", first), (mean, error, first)
        if len(check.surprise.impossible):
            assert "better than" not in first
    n, expected = int(check.surprise.surprising.sum()), 0.01 * len(check.surprise.score)
    within = re.search(
        r"([\d,]+) surprising tasks? .*where ([\d.]+) are expected: no more than", text
    )
    beyond = re.search(r"no kind explains: ([\d,]+) with .*where ([\d.]+) are expected", text)
    assert bool(within) != bool(beyond)
    assert int((within or beyond)[1]) == n
    assert abs(float((within or beyond)[2]) - expected) < 0.0501
    likely = stats.poisson.sf(n - 1, expected) >= 0.01
    assert bool(within) == (likely and not len(check.surprise.impossible))
    one = check.calibration["rewards"]
    out = np.abs(2 * one.transforms - 1)
    assert ("too narrow" in text) <= (out.mean() > 0.5 if len(out) else False)
    assert ("too wide" in text) <= (out.mean() < 0.5 if len(out) else False)
    assert ("above the predictions" in text) <= bool((one.transforms - 0.5).sum() > 0)
    assert ("are calibrated" in text) == (one.verdict == "calibrated")
    assert ("Calibration of rewards" in text) == bool(one.findings)
    for kind, found, due in re.findall(r"(\w) \(([\d.]+) tasks, ([\d.]+) expected\)", text):
        assert kind in "abc"
        assert float(found) <= 0.1 * float(due) + 0.06


@settings(max_examples=150, deadline=None)
@given(checks(), st.booleans(), st.booleans())
def test_advice_is_never_praise_while_a_check_fails(
    settings: dict[str, Any], converged: bool, faulty: bool
) -> None:
    check = made(**settings)
    advice = advise(fit_with(check, converged, faulty), paying())
    one, surprise = check.calibration["rewards"], check.surprise
    verdicts = [check.evidence.verdict(name) for name in ("UniTS", "TS, flat")]
    fails = (
        bool(one.findings) or not one.judged or surprise.beyond_chance or "worse" in verdicts
        or verdicts[1] != "better" or check.usage.unused.any() or not converged or faulty
    )  # fmt: skip
    assert (advice.answer == "use") == (not fails)
    # Predictions that are far off are forgiven only where a replay pays, as this one does.
    assert (advice.answer == "no") == bool("worse" in verdicts or len(surprise.impossible))
    bad = "worse" in verdicts or len(surprise.impossible) or (one.findings and one.deviation >= 0.1)
    assert (advise(fit_with(check, converged, faulty)).answer == "no") == bool(bad)
    assert str(advice).startswith("Use this prior: ") == (not fails)
    if one.findings:
        assert one.remedy in str(advice) or advice.answer == "no"


def test_noise_that_varies_less_than_predicted_is_no_reason_against_a_prior() -> None:
    check = made(1, 200, 400, (1, 1), 1.0, 0.0, 0)
    steady = np.random.default_rng(1).beta(30, 30, 400)
    noise = Calibration("noise", steady, np.zeros(400, int))
    assert noise.findings == ("wide",)
    assert noise.deviation >= 0.1
    advice = advise(fit_with(replace(check, calibration={"noise": noise})), paying())
    assert advice.answer == "caution"
    assert "decisions are hardly affected" in str(advice)


def test_a_prior_without_a_check_is_no_praise() -> None:
    words = "Use this prior with caution: it was not checked on held-out tasks."
    assert str(advise(fit_with(None), paying())) == words


def test_the_simplest_prior_knows_what_is_the_same_for_everybody() -> None:
    checks = (made(seed, 20, 20, (1, 1), 0.1, 0.0, 0) for seed in range(100))
    check = next(one for one in checks if one.evidence.verdict("TS, flat") == "no different")
    fit = fit_with(check)
    assert "no better than a prior that knows nothing (TS, flat)" in str(advise(fit))
    fit.__dict__["prior"] = SimpleNamespace(features=SimpleNamespace(pooled=object()))
    assert "knows only what is the same for everybody (TS, flat)" in str(advise(fit))
