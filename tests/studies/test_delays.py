"""The study of clicks that come late."""

from __future__ import annotations

import numpy as np
import pytest

import mixts
from mixts.service.policy import Policy
from mixts.service.rules import Rules
from studies import delays


def test_without_a_delay_it_does_not_matter_what_is_told() -> None:
    for policy in delays.POLICIES.values():
        regrets = [delays.play(policy, tell, 1e-9, 20, 6) for tell in delays.WAYS.values()]
        assert all(np.array_equal(regret, regrets[0]) for regret in regrets[1:])


def test_the_model_is_that_of_the_service() -> None:
    age, made = np.array([1, 20, 59]), (np.zeros(3, int), np.arange(3))
    for said, thought in zip(list(delays.WAYS)[2:], (10.0, 5.0, 20.0), strict=True):
        rules = Rules(
            Policy("ids"), int(60e6), 0.0, thought * 1e6
        )  # a window of six mean delays of 10
        told = delays.WAYS[said](age, 10.0, made)
        assert told.arrived == pytest.approx([rules.arrived(int(a * 1e6)) for a in age])


def test_the_table_compares_with_expected_rewards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delays, "POLICIES", {"Greedy": mixts.Greedy})
    found = delays.study(12, 8)
    lines = delays.table(found).splitlines()
    assert len(lines) == 2 + len(delays.WAYS)
    first, zero = (found["Greedy"][said] for said in list(delays.WAYS)[:2])
    assert all((regret >= 0).all() for regret in first)
    gap = zero[2] - first[2]
    assert lines[3].endswith(f"({gap.mean():+.2f} ± {gap.std(ddof=1) / 12**0.5:.2f}) |")
    assert "(" not in lines[2]
