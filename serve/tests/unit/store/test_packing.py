"""Probabilities in the log: dense or sparse, and always the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
from mixts_serve.store.tables import n_probabilities, pack, pack_probabilities, unpack_probabilities


@pytest.mark.parametrize("n", [1, 3, 99, 100, 101, 2000])
@pytest.mark.parametrize("n_positive", [1, 2, 3, 20, 99])
@pytest.mark.parametrize("least", [0.0, 0.01])
def test_a_law_is_read_as_it_was_written(n: int, n_positive: int, least: float) -> None:
    law = np.full(n, least / n)
    places = np.random.default_rng(n).permutation(n)[:n_positive]
    law[places] += (1 - least) * np.random.default_rng(1).dirichlet(np.ones(len(places)))
    packed = pack_probabilities(law)
    np.testing.assert_array_equal(unpack_probabilities(packed), law)
    assert n_probabilities(len(packed), packed[:5]) == n
    assert len(packed) <= 8 * n
    np.testing.assert_array_equal(unpack_probabilities(pack(law)), law)
    if n < 100 or n_positive * 3 > n:
        assert packed == pack(law)


def test_two_positive_probabilities_take_few_bytes() -> None:
    for least in (0.0, 1e-6):
        law = np.full(10_000, least)
        law[[17, 9_999]] = 0.25, 0.75
        assert len(pack_probabilities(law)) == 5 + 8 + 2 * 12
    assert len(pack_probabilities(np.arange(10_000) / 5e7)) == 80_000
