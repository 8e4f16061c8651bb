"""A comparison of policies in words: sentences that agree with the numbers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from mixts.diagnostics import Earnings, PolicyComparison
from mixts.pages.policies import policy_answer, policy_sources, policy_table, policy_verdict

POLICIES = ("bestseller", "greedy", "ts", "ids")


def earnings(
    means: tuple[float, ...],
    n_decisions: int = 20,
    source: Any = "replay",
    bestseller: str | None = "hats",
    n_replayable: int = 100,
) -> Earnings:
    """Earnings of 100 tasks with these means; a mean has an error of 0.01, a gain one of 0.014."""
    rng = np.random.default_rng(3)
    rewards = {}
    for name, mean in zip(POLICIES, means, strict=True):
        noise = rng.standard_normal(100)
        noise = (noise - noise.mean()) / noise.std(ddof=1)
        rewards[name] = mean + 0.1 * noise
    return Earnings(n_decisions, source, rewards, n_replayable, 3.25, bestseller)


def compared(*means: float, **options: Any) -> PolicyComparison:
    return PolicyComparison((earnings(means, **options),), 120)


def test_ids_wins() -> None:
    first, advice = policy_verdict(compared(0.5, 0.6, 0.55, 0.62))
    assert re.fullmatch(
        r"On held-out tasks, each of the first 20 decisions earned 0\.620 ± 0\.010 with IDS and "
        r"0\.500 ± 0\.010 with the bestseller \(`hats`\): 0\.120 ± 0\.01\d more\.",
        first,
    )
    assert advice == "Use IDS: no other policy earns clearly more."


def test_no_policy_starts_from_an_unusable_prior() -> None:
    _, advice = policy_verdict(compared(0.5, 0.6, 0.55, 0.62), usable=False)
    assert advice == "No policy should start from this prior: it fails its checks."
    *_, advice = policy_verdict(compared(0.5, 0.44, 0.3, 0.4), usable=False)
    assert advice == "Use the bestseller: it clearly earned more than IDS."


def test_no_clear_difference_is_said() -> None:
    first, advice = policy_verdict(compared(0.5, 0.5, 0.5, 0.49))
    assert re.search(r": 0\.010 ± 0\.01\d less, which is no clear difference\.$", first)
    assert advice == "Use IDS: no other policy earns clearly more."


def test_another_policy_wins() -> None:
    first, advice = policy_verdict(compared(0.5, 0.7, 0.55, 0.62))
    assert "0.700 ± 0.010 with greedy" in first
    assert re.fullmatch(r"Use greedy: it earned 0\.080 ± 0\.01\d more than IDS\.", advice)


def test_a_simulation_does_not_recommend_another_policy() -> None:
    first, advice = policy_verdict(compared(0.5, 0.7, 0.55, 0.62, source="simulation"))
    assert "0.620 ± 0.010 with IDS" in first
    assert re.fullmatch(
        r"Use IDS: greedy earned 0\.080 ± 0\.01\d more, but a simulation does not show what a "
        r"policy earns if the prior is wrong\.",
        advice,
    )
    # But it shows that even the bestseller earns more.
    _, loss, advice = policy_verdict(compared(0.5, 0.44, 0.3, 0.4, source="simulation"))
    assert loss.startswith("IDS loses to the bestseller: 0.100")
    assert advice == "Use the bestseller: it clearly earned more than IDS."
    # And it never recommends greedy, however much that earns.
    first, loss, advice = policy_verdict(compared(0.5, 0.6, 0.3, 0.4, source="simulation"))
    assert "0.400 ± 0.010 with IDS" in first
    assert loss.startswith("IDS loses to the bestseller: 0.100")
    assert re.fullmatch(
        r"Use the bestseller: greedy earned 0\.100 ± 0\.01\d more, but a simulation does not show "
        r"what a policy earns if the prior is wrong\.",
        advice,
    )


def test_equal_earnings_are_the_same() -> None:
    one = Earnings(5, "replay", dict.fromkeys(POLICIES, np.arange(4.0)), 4, 1.0, "x")
    first, _ = policy_verdict(PolicyComparison((one,), 4))
    assert first.endswith("with the bestseller (`x`): the same.")


def test_ids_loses_to_the_bestseller() -> None:
    first, loss, advice = policy_verdict(compared(0.5, 0.44, 0.3, 0.4))
    assert re.search(r"earned 0\.440 ± 0\.010 with greedy .*: 0\.060 ± 0\.01\d less\.$", first)
    assert re.fullmatch(r"IDS loses to the bestseller: 0\.100 ± 0\.01\d less\.", loss)
    assert advice == "Use the bestseller: it clearly earned more than IDS."
    first, loss, advice = policy_verdict(compared(0.5, 0.6, 0.3, 0.4))
    assert loss.startswith("IDS loses to the bestseller: 0.100")
    assert advice.startswith("Use greedy: it earned 0.200")


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
        assert ("IDS loses" in text) == one.decisive.clearly("bestseller", "ids")
        words = {"ids": "IDS", "ts": "Thompson sampling", "bestseller": "the bestseller"}
        assert f"Use {words.get(one.recommended, one.recommended)}:" in text


def test_sources_say_what_was_replayed() -> None:
    means = (0.5, 0.5, 0.5, 0.6)
    one = PolicyComparison((earnings(means, 5), earnings(means, 10)), 120)
    first, few, second, last = policy_sources(one)
    assert first == (
        "The first 5 and 10 decisions were replayed on 100 and 100 of 120 held-out tasks; the "
        "prior was not learned from them."
    )
    assert few == (
        "The other tasks have too few recorded rewards: the numbers speak for tasks with many."
    )
    assert few not in policy_sources(PolicyComparison(one.earnings, 100))  # all were replayed
    assert "on average 3.2 and 3.2" in second
    assert second.endswith(
        "The bestseller is the arm with the highest mean reward in the training rows, `hats`; arms "
        "that were hardly tried are left out. A task without the bestseller gets the best arm that "
        "it offers."
    )
    assert last.endswith("a replay is only approximate.")
    text = " ".join(policy_sources(compared(*means, bestseller=None)))
    assert "one of 3 recorded rows of the task that were not chosen yet" in text
    assert "drawn from the prior" not in text


def test_sources_say_what_was_simulated_and_why() -> None:
    means = (0.5, 0.5, 0.5, 0.6)
    one = PolicyComparison(
        (earnings(means, 5), earnings(means, 20, "simulation", n_replayable=7)), 120
    )
    *_, last = policy_sources(one)
    assert last.startswith(
        "For the first 20 decisions the recorded rewards of only 7 of 120 held-out tasks are "
        "enough, and a replay needs 30 tasks. So 100 tasks were drawn from the prior: these "
        "numbers assume that the prior is right."
    )
    (only,) = policy_sources(PolicyComparison(one.earnings[1:], 120))
    assert only == last
    none = earnings(means, 5, "simulation", n_replayable=0)
    (only,) = policy_sources(PolicyComparison((none, none), 120))
    assert "the recorded rewards of none of 120 held-out tasks are enough" in only
    first, _ = policy_verdict(PolicyComparison(one.earnings[1:], 120))
    assert first.startswith("On tasks drawn from the prior, each of the first 20 decisions")


def test_differences_have_the_digits_of_their_own_errors() -> None:
    """Tasks differ by 1, policies on one task by 0.003: a difference is far from 0 ± 0."""
    rng = np.random.default_rng(8)
    tasks = rng.standard_normal(100)
    rewards = {name: tasks + 0.003 * rng.standard_normal(100) for name in POLICIES}
    rewards["ids"] = rewards["ids"] + 0.01
    rewards["ts"] = rewards["bestseller"] + 0.3 * rng.standard_normal(100)
    one = PolicyComparison((Earnings(20, "replay", rewards, 100, 3.0, "hats"),), 100)
    gain = one.decisive.gain("ids")
    first, _ = policy_verdict(one)
    assert first.endswith(f": {gain.mean:.5f} ± {gain.error:.5f} more.")
    assert re.search(r"earned −?\d\.\d\d ± 0\.\d\d with IDS", first)
    _, greedy, ts, ids = policy_answer(one).groups[0].items
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
    first, _ = policy_verdict(PolicyComparison((Earnings(5, "replay", rewards, 9, 2.0, "x"),), 9))
    assert "4.500 ± 0.000 with IDS" in first
    assert first.endswith(": 3.500 ± 0.000 more.")
    single = {name: reward[:1] for name, reward in rewards.items()}
    first, _ = policy_verdict(PolicyComparison((Earnings(5, "replay", single, 1, 2.0, "x"),), 1))
    assert "4.500 ± nan with IDS" in first


def test_the_table_has_a_row_for_each_policy() -> None:
    means = (-0.5, 0.5, 0.55, 0.62)
    one = PolicyComparison((earnings(means, 5), earnings(means, 20, "simulation")), 120)
    lines = policy_table(one)
    assert [line.split("  ")[0] for line in lines] == [
        "reward per decision", "Bestseller", "Greedy", "Thompson sampling", "IDS", "",
    ]  # fmt: skip
    assert len({len(line) for line in lines}) == 1
    assert "−0.500 ± 0.010" in lines[1]
    assert lines[-1].split() == ["replay,", "100", "simulation,", "100"]


def test_drawings_share_a_scale() -> None:
    means = (0.5, 0.6, 0.55, 0.62)
    answer = policy_answer(PolicyComparison((earnings(means, 5), earnings(means, 20)), 120))
    assert [group.title for group in answer.groups] == ["First 5 decisions", "First 20 decisions"]
    assert answer.groups[0].source == "replay, 100 tasks"
    best, *_, ids = answer.groups[0].items
    assert (best.name, best.mean, best.overall) == ("Bestseller", "0.500 ± 0.010", "–")
    assert best.place == best.overall_place == ids.overall_place
    assert best.low == 0
    assert ids.high == 100
    assert re.fullmatch(r"\+0\.120 ± 0\.01\d", ids.overall)
    # From 0.48 to 0.64, two errors beyond the means.
    assert ids.place == pytest.approx(100 * (0.62 - 0.48) / 0.16)
    assert "0.620 ± 0.010 per decision; gain over the bestseller +0.120" in ids.alt


def test_names_of_arms_are_text() -> None:
    first, _ = policy_verdict(compared(0.5, 0.6, 0.55, 0.62, bestseller="a `b`\nc"))
    assert "(`a 'b' c`)" in first
