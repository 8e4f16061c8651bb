"""The experiment with a known truth: its past tasks, what it measures, and what it concludes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mixts.experiments import Measured, Setting
from mixts.experiments.base import Arrays
from mixts.experiments.report import render_text
from mixts.pages import Claim
from studies.coldstart.known_truth import (
    AUTO,
    EXPERIMENT,
    LENGTHS,
    NUMBERS,
    sweep,
)
from studies.coldstart.known_truth import parts as agents
from studies.coldstart.known_truth.analysis import LEARNED, analyse
from studies.coldstart.known_truth.parts import KnownPart, LearnedPart, Point
from studies.coldstart.known_truth.truths import TRUTHS, Truth

LINEAR, ARMS = TRUTHS
SETTING = Setting(2, 10, 1)


def make_now(name: str, make: Callable[[], Arrays]) -> Arrays:
    return make()


# -- past tasks ---------------------------------------------------------------------------------


@pytest.mark.parametrize("truth", TRUTHS, ids=lambda truth: truth.name)
def test_statistics_are_those_of_the_first_observations(truth: Truth) -> None:
    histories = truth.histories(np.random.default_rng(0), 5, 8)
    lengths = np.array([8, 1, 3])
    belief = truth.prior.belief(3)
    for task, length in enumerate(lengths):
        for step in range(length):
            belief.update(histories.actions[[task], step], histories.rewards[[task], step], [task])
    found = histories.statistics(lengths)
    assert found.n_observations.tolist() == lengths.tolist()
    expected = belief.log_evidence
    np.testing.assert_allclose(truth.prior.condition(found).log_evidence, expected, rtol=1e-10)


def test_rewards_are_those_of_the_truth() -> None:
    """Moments of rewards over tasks, within five standard errors."""
    n = 4000
    arms = ARMS.histories(np.random.default_rng(1), n, 1)
    mean = ARMS.prior.family.collapse(ARMS.prior.weights).prior_marginal(np.zeros(1, int)).mean()[0]
    for arm in range(6):
        rewards = arms.rewards[arms.actions == arm]
        error = np.sqrt(mean[arm] * (1 - mean[arm]) / len(rewards))
        assert abs(rewards.mean() - mean[arm]) < 5 * error
    linear = LINEAR.histories(np.random.default_rng(2), n, 1)
    np.testing.assert_allclose(np.linalg.norm(linear.actions, axis=2), 1.0)
    family = LINEAR.prior.collapse().family
    # Actions have E aa' = I / 4 and are independent of the coefficients.
    second = (np.trace(family.covariance[0]) + (family.mean[0] ** 2).sum()) / 4 + 0.25
    squares = linear.rewards**2
    assert abs(squares.mean() - second) < 5 * squares.std() / np.sqrt(n)


def test_mixed_lengths_are_all_there() -> None:
    lengths = Point(500, None).lengths(np.random.default_rng(3))
    assert set(lengths.tolist()) == set(agents.MIXED_LENGTHS)


# -- what is measured ---------------------------------------------------------------------------


def test_every_value_is_a_point_and_none_comes_twice() -> None:
    points = sweep(EXPERIMENT.scale.n_runs)
    assert len({(p.n_tasks, p.length) for p in points}) == len(points)
    assert sorted({p.n_tasks for p in points if p.length == 10}) == list(NUMBERS)
    assert sorted({p.length for p in points if p.n_tasks == 500 and p.length}) == list(LENGTHS)
    assert {(p.n_tasks, p.length) for p in points if p.auto} == set(AUTO)
    assert points[-1].length is None
    parts = EXPERIMENT.parts(Setting(10, 50, 1), make_now)
    assert len(parts) == 2 * (len(points) + 1)
    assert {part.n_blocks for part in parts.values()} == {10}


def test_the_true_prior_loses_nothing() -> None:
    part = KnownPart(ARMS, SETTING, 10)
    arrays = part.play(1)
    assert arrays["lost/true prior"] == [0.0]
    assert arrays["lost/TS"] > 0.5
    assert arrays["lost/true prior, too sure"] > 0
    assert arrays["regret/true prior"] == [part.regret(1, ARMS.prior)]
    assert arrays["regret/true prior"] != [part.regret(0, ARMS.prior)]


@pytest.fixture(scope="module")
def learned() -> LearnedPart:
    return LearnedPart(ARMS, SETTING, 10, Point(20, 10))


def test_a_block_is_the_same_whenever_it_is_played(learned: LearnedPart) -> None:
    arrays = learned.play(0)
    assert {f"{what}/{name}" for what in ("lost", "regret") for name in LEARNED} <= set(arrays)
    assert all(array.shape == (1,) and np.isfinite(array).all() for array in arrays.values())
    again = learned.play(0)
    assert all((again[name] == array).all() for name, array in arrays.items())


def test_fewer_tasks_are_the_first_of_more(learned: LearnedPart) -> None:
    past = learned.past(0)
    few, more = (past.statistics(np.full(n, 10)) for n in (3, 6))
    assert (few.successes == more[np.arange(3)].successes).all()
    assert not (past.rewards == learned.past(1).rewards).all()


# -- what is concluded --------------------------------------------------------------------------


def made_up(value: Callable[[str, Point, str], float]) -> Measured:
    """Numbers by quantity, point and agent; the true prior has a regret of 10."""
    points, n = sweep(10), 10
    rng = np.random.default_rng(4)
    parts = {}
    for truth in TRUTHS:
        known = {
            f"lost/{agents.FLAT}": 5.0, f"regret/{agents.FLAT}": 15.0,
            f"regret/{agents.SURER}": 9.0,
        }  # fmt: skip
        parts[f"{truth.name}, known"] = {
            "regret/true prior": np.full(n, 10.0),
            **{name: np.full(n, number) for name, number in known.items()},
        }
        for point in points:
            names = (*LEARNED, agents.AUTO) if point.auto else LEARNED
            arrays = {
                f"{quantity}/{name}": base
                + value(quantity, point, name)
                + 1e-3 * rng.normal(size=n)
                for quantity, base in (("lost", 0.0), ("regret", 10.0))
                for name in names
            }
            arrays |= {"converged": np.ones(n, bool), "iterations": np.full(n, 9)}
            parts[f"{truth.name}, {point.name}"] = {**arrays, "found": np.full(n, 3)}
    return Measured(Setting(n, 50, 1), parts)


def claims(value: Callable[[str, Point, str], float]) -> tuple[Claim, ...]:
    analysis = analyse(made_up(value), sweep(10), TRUTHS)
    return render_text(EXPERIMENT, analysis).claims


def ideal(quantity: str, point: Point, agent: str) -> float:
    """The evidence is ahead of two stages, which catch up, and reaches the truth."""
    length = 27 if point.length is None else point.length
    lost = 60.0 / point.n_tasks + 2.0 / length
    if agent == agents.TWO_STAGE:
        lost += 2.0 / length
    if agent in (agents.ONE, agents.UNITS):
        lost += 1.5
    if quantity == "regret" and agent == agents.EVIDENCE and point.n_tasks == 2000:
        return 0.0
    return lost


def test_all_claims_hold_of_ideal_numbers() -> None:
    analysis = analyse(made_up(ideal), sweep(10), TRUTHS)
    text = render_text(EXPERIMENT, analysis)
    assert [claim.verdict for claim in text.claims] == ["holds"] * 10
    assert len(analysis.figures) == 4
    assert len(text.tables) == 9


@pytest.mark.parametrize(
    ("quantity", "where", "agent", "added", "claim", "verdict"),
    [
        ("lost", Point(200, 10), agents.EVIDENCE, 1.0, 0, "direction only"),
        ("lost", Point(2000, 10), agents.EVIDENCE, 9.0, 0, "does not hold"),
        ("lost", Point(500, 20), agents.EVIDENCE, 0.5, 1, "direction only"),
        ("lost", Point(500, 100), agents.TWO_STAGE, 9.0, 2, "does not hold"),
        ("lost", Point(500, 2), agents.EVIDENCE, 1.5, 3, "does not hold"),
        ("regret", Point(500, 2), agents.EVIDENCE, 1.5, 4, "does not hold"),
        ("lost", Point(500, None), agents.EVIDENCE, 1.5, 5, "does not hold"),
        ("regret", Point(2000, 10), agents.EVIDENCE, 0.4, 6, "direction only"),
        ("regret", Point(2000, 10), agents.EVIDENCE, 0.6, 6, "does not hold"),
        ("lost", Point(2000, 10), agents.ONE, -2.0, 7, "does not hold"),
        ("regret", Point(20, 10), agents.EVIDENCE, 3.0, 8, "does not hold"),
        ("lost", Point(500, 2), agents.AUTO, 0.1, 9, "does not hold"),
    ],
)
def test_a_claim_falls_with_the_number_it_rests_on(
    quantity: str, where: Point, agent: str, added: float, claim: int, verdict: str
) -> None:
    def worse(what: str, point: Point, name: str) -> float:
        here = (what, point[:2], name) == (quantity, where[:2], agent)
        return ideal(what, point, name) + added * here

    assert claims(worse)[claim].verdict == verdict


def test_where_a_claim_fails_it_says_so() -> None:
    claim = claims(
        lambda what, point, name: (
            ideal(what, point, name) + 2.0 * (point.length == 2 and name == agents.EVIDENCE)
        )
    )[3]
    assert "linear, 500 tasks of 2" in claim.note
    assert "arms, 500 tasks of 2" in claim.note
    assert claim.measured.startswith("28 points: better at 26, worse at 2")
