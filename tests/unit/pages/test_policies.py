"""A comparison of policies in words: sentences that agree with the numbers."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mixts.diagnostics import Earnings, PolicyComparison
from mixts.pages.policies import policy_answer, policy_sources, policy_table, policy_verdict

POLICIES = ("bestseller", "greedy", "ts", "ids")


def earnings(
    means: tuple[float, ...],
    n_decisions: int = 20,
    bestseller: str | None = "hats",
    missed: float = 0.0,
) -> Earnings:
    """Earnings of 100 tasks with these means; a mean has an error of 0.01, a gain one of 0.014."""
    rng = np.random.default_rng(3)
    rewards = {}
    for name, mean in zip(POLICIES, means, strict=True):
        noise = rng.standard_normal(100)
        noise = (noise - noise.mean()) / noise.std(ddof=1)
        rewards[name] = mean + 0.1 * noise
    lost = {} if bestseller is None else dict.fromkeys(POLICIES, np.full(100, missed))
    return Earnings(n_decisions, rewards, np.full(100, 0.4), 3.25, bestseller, lost)


def comparison(*earnings: Earnings, n_past: int = 120) -> PolicyComparison:
    return PolicyComparison(earnings, {one.n_decisions: 100 for one in earnings}, n_past)


def compared(*means: float, **options: Any) -> PolicyComparison:
    return comparison(earnings(means, **options))


NOTHING = PolicyComparison((), {5: 7, 10: 0}, 120)


def test_ids_wins() -> None:
    first, advice = policy_verdict(compared(0.5, 0.6, 0.55, 0.62))
    assert re.fullmatch(
        r"In a replay of 100 past tasks, each of the first 20 decisions earned 0\.620 ± 0\.010 "
        r"with IDS and 0\.500 ± 0\.010 with the bestseller \(`hats`\): \+24 % \(1\d to 3\d %\)\.",
        first,
    )
    assert advice == "Use IDS."


def test_the_rival_of_features_is_a_pooled_model() -> None:
    first, _ = policy_verdict(compared(0.5, 0.6, 0.55, 0.62, bestseller=None))
    assert "0.500 ± 0.010 with the pooled model: +24 %" in first
    assert "Pooled model" in policy_table(compared(0.5, 0.6, 0.55, 0.62, bestseller=None))[2]


def test_no_policy_starts_from_an_unusable_prior() -> None:
    _, advice = policy_verdict(compared(0.5, 0.6, 0.55, 0.62), usable=False)
    assert advice == "No policy should start from this prior: it fails its checks."
    *_, advice = policy_verdict(compared(0.5, 0.44, 0.3, 0.45), usable=False)
    assert advice == "Use the bestseller: it clearly earned more."


def test_no_clear_difference_is_said() -> None:
    first, advice = policy_verdict(compared(0.5, 0.5, 0.5, 0.49))
    assert re.search(r": −2 % \(−\d to \d %\), which is no clear difference\.$", first)
    assert advice == (
        "These logs do not show that learning pays over the bestseller in the first 20 decisions."
    )


def test_a_clear_gain_in_a_replay_that_does_not_count_is_not_denied() -> None:
    few = earnings((0.5, 0.5, 0.5, 0.49), n_decisions=5)
    more = earnings((0.5, 0.6, 0.55, 0.62), n_decisions=10, missed=0.05)
    first, advice, left_out = policy_verdict(comparison(few, more))
    assert "each of the first 5 decisions" in first
    assert advice.endswith("over the bestseller in the first 5 decisions.")
    assert left_out == (
        "The replay of 10 decisions does not count: too few recorded rewards of good arms were "
        "left for it."
    )


def test_another_policy_wins() -> None:
    first, advice = policy_verdict(compared(0.5, 0.7, 0.55, 0.62))
    assert "0.700 ± 0.010 with greedy" in first
    assert re.fullmatch(r"Use greedy: it earned 0\.080 ± 0\.01\d more than IDS\.", advice)


def test_nothing_replayed_is_nothing_known() -> None:
    (only,) = policy_verdict(NOTHING)
    assert only == (
        "Nobody knows what policies earn with this prior: a replay of 5 decisions needs 30 past "
        "tasks with 10 recorded rewards, and there are 7 among 120."
    )
    assert policy_table(NOTHING) == policy_sources(NOTHING) == []
    assert policy_answer(NOTHING).groups == ()


def test_restricted_choices_are_said() -> None:
    *_, said = policy_verdict(compared(0.5, 0.6, 0.55, 0.62, missed=0.05))
    assert said.startswith("Live decisions will earn something else: they can choose every arm")
    assert "IDS expected 0.050 more per decision, and the bestseller 0.050 more." in said
    assert len(policy_verdict(compared(0.5, 0.6, 0.55, 0.62, missed=0.005))) == 2
    # And then nothing is recommended, whatever was earned.
    for means in ((0.5, 0.6, 0.55, 0.62), (0.5, 0.3, 0.3, 0.3), (0.5, 0.5, 0.5, 0.5)):
        assert "Use " not in " ".join(policy_verdict(compared(*means, missed=0.05)))


def test_equal_earnings_are_no_gain() -> None:
    one = Earnings(5, dict.fromkeys(POLICIES, np.arange(4.0)), np.arange(4.0), 1.0, "x")
    first, _ = policy_verdict(comparison(one))
    assert "(`x`): +0.000 ± 0.000, which is no clear difference." in first


def test_the_bestseller_wins() -> None:
    first, advice = policy_verdict(compared(0.5, 0.44, 0.3, 0.44))
    assert re.search(r"earned 0\.440 ± 0\.010 with IDS .*: −12 % \(", first)
    assert advice == "Use the bestseller: it clearly earned more."


def test_the_words_follow_the_numbers() -> None:
    """For random numbers: each amount in the sentences is one that the comparison measured."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        one = compared(*(0.5 + 0.05 * rng.standard_normal(4)))
        found = [one.decisive.mean(p) for p in POLICIES]
        found += [one.decisive.gain(p, q) for p in POLICIES for q in POLICIES]
        measured = {float(f"{abs(earned.mean):.3f}") for earned in found}
        text = " ".join(policy_verdict(one))
        amounts = [float(found) for found in re.findall(r"(\d\.\d{3}) ±", text)]
        assert set(amounts) <= measured
        assert ("Use the bestseller" in text) == one.decisive.clearly("bestseller", one.agent)
        shares = re.findall(r"([+−]\d+) % \((−?\d+) to (−?\d+) %\)", text)
        mean, low, high = (float(share.replace("−", "-")) for share in shares[0])
        gain = one.decisive.relative_gain(one.agent)
        assert gain is not None
        assert mean == pytest.approx(100 * gain.mean, abs=0.501)
        assert (low, high) == pytest.approx(
            [100 * (gain.mean + side * gain.error) for side in (-2, 2)], abs=0.501
        )


def test_sources_say_what_was_replayed() -> None:
    means = (0.5, 0.5, 0.5, 0.6)
    one = comparison(earnings(means, 5), earnings(means, 10))
    first, few, second, last = policy_sources(one)
    assert first == (
        "Recorded rewards were replayed: each past task was decided with a prior that was learned "
        "without it."
    )
    assert few == (
        "A replay of n decisions needs tasks with 2n recorded rewards. Of 120 past tasks, 100 and "
        "100 have enough for 5 and 10 decisions: the numbers speak for tasks with many rewards."
    )
    assert "chooses from 3.2 and 3.2 arms on average" in second
    assert "the arm with the highest mean reward in the training rows, `hats`;" in second
    assert last.endswith("a replay is only approximate.")
    text = " ".join(policy_sources(compared(*means, bestseller=None)))
    assert "dealt to its decisions at random" in text
    assert "one regression" in text
    later = replace(one, crossed=False)
    assert "held-out tasks were decided" in policy_sources(later)[0]


def test_differences_have_the_digits_of_their_own_errors() -> None:
    """Tasks differ by 1, policies on one task by 0.003: a difference is far from 0 ± 0."""
    rng = np.random.default_rng(8)
    tasks = rng.standard_normal(100)
    rewards = {name: tasks + 0.003 * rng.standard_normal(100) for name in POLICIES}
    rewards["ids"] = rewards["ids"] + 0.01
    rewards["ts"] = rewards["bestseller"] + 0.3 * rng.standard_normal(100)
    one = comparison(Earnings(20, rewards, tasks, 3.0, "hats"))
    gain = one.decisive.gain("ids")
    first, _ = policy_verdict(one)
    assert first.endswith(f": +{gain.mean:.5f} ± {gain.error:.5f}.")
    assert re.search(r"earned −?\d\.\d\d ± 0\.\d\d with IDS", first)
    _, _, greedy, ts, ids = policy_answer(one).groups[0].items
    # A column has as many digits for all: one of the smallest error, two of the largest.
    assert ids.overall == f"+{gain.mean:.4f} ± {gain.error:.4f}"
    for item in (greedy, ts, ids):
        amount, error = item.overall.split(" ± ")
        assert len(amount.split(".")[1]) == len(error.split(".")[1]) == 4
        assert float(error) > 0


def test_errors_that_are_none_need_no_digits() -> None:
    """Errors of a rounding, or of a single task, do not set the digits."""
    rewards = {
        name: np.full(9, mean) for name, mean in zip(POLICIES, (1.0, 2.0, 3.0, 4.5), strict=True)
    }
    rewards["ids"] = rewards["ids"] + 1e-15 * np.arange(9)
    first, _ = policy_verdict(comparison(Earnings(5, rewards, np.zeros(9), 2.0, "x")))
    assert "4.500 ± 0.000 with IDS" in first
    assert first.endswith(": +350.00 % (350.00 to 350.00 %).")
    single = {name: reward[:1] for name, reward in rewards.items()}
    first, _ = policy_verdict(comparison(Earnings(5, single, np.zeros(1), 2.0, "x")))
    assert "4.500 ± nan with IDS" in first


def test_the_table_has_a_row_for_each_policy() -> None:
    means = (-0.5, 0.5, 0.55, 0.62)
    one = comparison(earnings(means, 5), earnings(means, 20))
    lines = policy_table(one)
    assert [line.split("  ")[0] for line in lines] == [
        "reward per decision", "Your logs", "Bestseller", "Greedy", "Thompson sampling", "IDS",
        "Gain of IDS", "tasks", "decisions",
    ]  # fmt: skip
    assert len({len(line) for line in lines}) == 1
    assert "0.400 ± 0.000" in lines[1]
    assert "−0.500 ± 0.010" in lines[2]
    assert lines[-2].split() == ["tasks", "100", "100"]
    assert lines[-1].split() == ["decisions", "500", "2,000"]


def test_drawings_share_a_scale() -> None:
    means = (0.5, 0.6, 0.55, 0.62)
    answer = policy_answer(comparison(earnings(means, 5), earnings(means, 20)))
    assert [group.title for group in answer.groups] == ["First 5 decisions", "First 20 decisions"]
    assert answer.groups[0].source == "100 past tasks, 500 decisions"
    logs, best, *_, ids = answer.groups[0].items
    assert (logs.name, logs.mean, logs.overall) == ("Your logs", "0.400 ± 0.000", "–")
    assert (best.name, best.mean, best.overall) == ("Bestseller", "0.500 ± 0.010", "–")
    assert best.place == best.overall_place == ids.overall_place
    assert logs.place == 0
    assert ids.high == 100
    assert re.fullmatch(r"\+24 % \(1\d to 3\d %\)", ids.overall)
    # From 0.4 to 0.64: what the logs earned, and two errors beyond the means.
    assert ids.place == pytest.approx(100 * (0.62 - 0.4) / 0.24, abs=0.01)
    assert "0.620 ± 0.010 per decision; gain over the bestseller +24 %" in ids.alt


def test_names_of_arms_are_text() -> None:
    first, _ = policy_verdict(compared(0.5, 0.6, 0.55, 0.62, bestseller="a `b`\nc"))
    assert "(`a 'b' c`)" in first
