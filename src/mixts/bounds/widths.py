"""The confidence widths of the proofs, as the paper's text has them.

Parts of App. A write log n where the text has log(dn), and give the factor before the norm as
sqrt(2 d log n), 2 sqrt(d log n) and 2 sqrt(d log(dn)). The text's widths are meant, and the proofs
of the latent confidence sets multiply them by eta = sqrt(2).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mixts._typing import Array, Float


def feature_width(norm: Float[Array, "..."], n_features: int, n: int) -> Any:
    """sigma_t(a, s) = sqrt(2 d log(d n)) ||a||, the norm that of Sigma_{t,s}  [paper: Sec. 4.2]."""
    return np.sqrt(2 * n_features * np.log(n_features * n)) * norm


def reward_width(total: Float[Array, "..."], n_states: int, n_actions: int, n: int) -> Any:
    """c_t(x, a, s) = sqrt(2 log(2 |X||A| n) / (total + 1))  [paper: Eq. 7].

    ``total`` is |alpha^R_{t,s}(x, a)|, the pseudo-counts and counts of the pair's rewards.
    """
    return np.sqrt(2 * np.log(2 * n_states * n_actions * n) / (total + 1))


def transition_width(total: Float[Array, "..."], n_states: int, n_actions: int, n: int) -> Any:
    """phi_t(x, a, s) = sqrt(4 |X| log(4 |X||A| n) / (total + 1)), in the 1-norm  [paper: Eq. 8].

    ``total`` is |alpha^T_{t,s}(x, a)|, the pseudo-counts and counts of the pair's transitions.
    """
    return np.sqrt(4 * n_states * np.log(4 * n_states * n_actions * n) / (total + 1))
