"""The steps of the proofs of the bounds that know the latent prior, with both sides measured."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mixts._typing import Array, Float
from mixts.bounds import EntropyTerms, bounded_entropy_bound, entropy, entropy_terms
from mixts.bounds.counts import count_bound, radius
from mixts.bounds.entropy import best_action_entropy, common_mean_range
from mixts.bounds.known_models import gaussian_separation, separated_bound
from mixts.bounds.narrow import narrow_terms
from mixts.diagnostics._inequalities import Inequality
from mixts.families.arms import ArmFamily

if TYPE_CHECKING:
    from mixts.diagnostics.latent_cost import LatentCost

PLACE = "docs/theory.md"
_GROUPS = 2.0
"""Rounds are judged in groups, each as long as all before it: most happens in the first."""


class _Problem(NamedTuple):
    """What the bounds depend on."""

    weights: Float[Array, " L"]
    n: int
    kappa: float
    n_actions: int
    mean_range: float | None
    """D; None if (C) fails."""
    proxy: float | None
    """q: rewards given a state are sub-Gaussian with this variance under the mixture."""
    terms: EntropyTerms | None
    """None for rewards without Gaussian noise."""
    plain: EntropyTerms | None
    """The same without the entropy of the best action."""
    width: float
    """Largest standard deviation of a parameter under a component."""


def latent_steps(measured: LatentCost) -> dict[str, Inequality]:
    """Return the steps by name; those whose conditions the problem does not meet are left out."""
    one = _problem(measured)
    steps = {**_of_any_rewards(measured, one), **_of_information(measured, one)}
    if one.terms is not None:
        steps |= _of_variances(measured, one) | _of_bounds(measured, one)
    if one.mean_range is not None:
        steps |= _of_counts(measured, one)
    if one.width == 0 and one.terms is not None and measured.fixed.all():
        steps |= _of_known_models(measured, one)
    return steps


def _problem(measured: LatentCost) -> _Problem:
    prior, family = measured.prior, measured.prior.family
    n, K = measured.n_rounds, int(measured.n_actions.max())
    kappa = float(measured.kappa.max())
    width = float(np.sqrt(family.parameter_variances().max()))
    if not isinstance(family.noise_std, float):
        bounded = family.reward_range == (0.0, 1.0)
        return _Problem(
            prior.weights, n, kappa, K, None, 0.25 if bounded else None, None, None, width
        )
    linear = family.to_linear()
    mean, covariance = np.array(linear.mean), np.array(linear.full_covariances())
    given, h = None, None
    if isinstance(family, ArmFamily):
        given, h = float(np.ptp(mean, axis=0).max()), best_action_entropy(family)
    size = (n, prior.weights, mean, covariance, family.noise_std, kappa, K)
    D = common_mean_range(mean, covariance, kappa, given)
    variance = float(np.linalg.eigvalsh(covariance).max())
    proxy = None if D is None else family.noise_std**2 + kappa**2 * variance + D**2 / 4
    return _Problem(
        prior.weights, n, kappa, K, D, proxy,
        entropy_terms(*size, h, given), entropy_terms(*size, None, given), width,
    )  # fmt: skip


def _mean(claim: str, left: Array, right: Array | float, equality: bool = False) -> Inequality:
    return Inequality(claim, PLACE, left, np.asarray(right, float), True, equality)


def _every(claim: str, left: Array, right: Array | float) -> Inequality:
    return Inequality(claim, PLACE, left, np.asarray(right, float))


def _of_any_rewards(measured: LatentCost, one: _Problem) -> dict[str, Inequality]:
    both = (measured.learning + measured.identification).sum(axis=1)
    drawn = (measured.sampled % 2 == 0).sum(axis=1).astype(float)
    # The expectation is n times the prior probability; the true state's own varies with the draws.
    expected = one.n * (measured.latent % 2 == 0).astype(float)
    rank = measured.rank
    states = min(rank, int(np.count_nonzero(one.weights)) - 1)
    return {
        "parts": _mean("E sum_t (W_t + B_t) = regret", both, measured.regret.sum(axis=1), True),
        "counts": _mean(
            "E N_{n+1}(s) = n P_0(s), every other state together", drawn, expected, True
        ),
        "roots": _mean(
            "E sqrt(P_t(s) P_t(s')) does not increase with t",
            _grouped(np.diff(measured.roots, axis=1)), 0.0,
        ),
        "identification by round": _squares(
            "(E B_t)^2 <= r_B E between_t", measured.identification, measured.between, states
        ),
        "learning by round": _squares(
            "(E W_t)^2 <= r E within_t", measured.learning, measured.within, rank
        ),
    }  # fmt: skip


def _squares(claim: str, part: Array, variance: Array, rank: int) -> Inequality:
    """Return (E part)^2 <= rank E variance, summed over groups of rounds.

    The product of two independent runs has the square as its expectation, without the bias that the
    square of an average would have.
    """
    half = len(part) // 2
    first, second = slice(0, half), slice(half, 2 * half)
    right = rank * (variance[first] + variance[second]) / 2
    return _mean(claim, _grouped(part[first] * part[second]), _grouped(right))


def _grouped(values: Float[Array, "n t"]) -> Float[Array, "n g"]:
    """Return sums over groups of rounds: the first, the second, the next two, the next four ..."""
    starts = [0]
    while (after := max(1, int(_GROUPS * starts[-1]))) < values.shape[1]:
        starts.append(after)
    return np.add.reduceat(values, starts, axis=1)


def _of_information(measured: LatentCost, one: _Problem) -> dict[str, Inequality]:
    steps = {
        "information": _mean("I(S; H_{n+1}) <= H(P_0)", measured.information, entropy(one.weights))
    }
    if one.proxy is not None:
        steps["between by information"] = _mean(
            "E sum_t between_t <= 2 q I(S; H_{n+1})",
            measured.between.sum(axis=1), 2 * one.proxy * measured.information,
        )  # fmt: skip
    if one.terms is None and one.proxy is not None and measured.fixed.all():
        family = measured.prior.family
        assert isinstance(family, ArmFamily)
        bound = bounded_entropy_bound(
            one.n, one.weights, one.n_actions, best_action_entropy(family)
        )
        alone = bounded_entropy_bound(one.n, one.weights, one.n_actions, 0.0)
        steps["identification"] = _mean(
            "E sum_t B_t <= sqrt(r_B n H(P_0) / 2)", measured.identification.sum(axis=1), alone
        )
        steps["entropy"] = _mean("regret <= the entropy bound", measured.regret.sum(axis=1), bound)
    return steps


def _of_variances(measured: LatentCost, one: _Problem) -> dict[str, Inequality]:
    assert one.plain is not None
    within, between = measured.within.sum(axis=1), measured.between.sum(axis=1)
    names = (
        "2 sigma^2 H(P_0) + kappa^2 tr Cov(theta)",
        "2 (sigma^2 + kappa^2 lambda) H(P_0) + kappa^2 tr Cov(theta_0,S)",
        "2 (sigma^2 + kappa^2 lambda + D^2/4) H(P_0)",
    )
    forms = {
        f"between {i}": _mean(f"E sum_t between_t <= {name}", between, b)
        for i, (name, b) in enumerate(zip(names, one.plain.between, strict=False), start=1)
    }
    return {
        "gain": _every(
            "1/2 sum_t log(1 + u_t(A_t,s) / sigma^2) <= gamma_s",
            measured.gain, one.plain.information,
        ),
        "within": _every("sum_t u_t(A_t,s) <= w_s", measured.variances, one.plain.within),
        "total": _mean("E sum_t (within_t + between_t) <= j", within + between, one.plain.total),
        **forms,
    }  # fmt: skip


def _of_bounds(measured: LatentCost, one: _Problem) -> dict[str, Inequality]:
    terms = one.terms if measured.fixed.all() else one.plain
    assert terms is not None
    identification = measured.identification.sum(axis=1)
    regret = measured.regret.sum(axis=1)
    steps = {
        "learning": _mean(
            "E sum_t W_t <= sqrt(r n w)", measured.learning.sum(axis=1), terms.learning
        ),
        "identification": _mean(
            "E sum_t B_t <= sqrt(r_B n b)", identification, terms.identification
        ),
        "entropy": _mean("regret <= the entropy bound", regret, terms.bound),
    }
    family = measured.prior.family
    if isinstance(family, ArmFamily) and one.mean_range is not None and measured.fixed.all():
        sigma = measured.prior.family.noise_std
        assert sigma is not None
        if np.ptp(family.parameter_variances()) == 0:
            found = narrow_terms(
                one.n, one.weights, family.parameter_means(), one.width, sigma, 0.0
            )
            steps["narrow"] = _mean(
                "E sum_t B_t <= the bound for narrow components", identification, found.bound
            )
    return steps


def _of_counts(measured: LatentCost, one: _Problem) -> dict[str, Inequality]:
    assert one.mean_range is not None
    assert one.proxy is not None
    sigma = measured.prior.family.noise_std
    assert sigma is not None
    v = one.proxy - one.mean_range**2 / 4
    delta = 1 / max(2, one.n)
    true = measured.sampled == measured.latent[:, None]
    ledger, drawn = np.cumsum(measured.excess * true, axis=1), np.cumsum(true, axis=1)
    lost = (ledger > radius(drawn, v, delta)).any(axis=1)
    bound = count_bound(
        one.n, one.weights, sigma, one.kappa, (v - sigma**2) / one.kappa**2, one.mean_range
    )
    return {
        "confidence": _mean(
            f"P(the true state's ledger ever exceeds rad) <= delta = {delta:g}",
            lost.astype(float), delta,
        ),
        "mean range": _every("m_t(a,s) - m_t(a,s') <= D", measured.mean_range, one.mean_range),
        "count bound": _mean(
            "E sum_t B_t <= the count bound", measured.identification.sum(axis=1), bound
        ),
    }  # fmt: skip


def _of_known_models(measured: LatentCost, one: _Problem) -> dict[str, Inequality]:
    """Return the steps for arms without width: the cost of each pair of states."""
    family = measured.prior.family
    if not isinstance(family, ArmFamily) or not isinstance(family.noise_std, float):
        return {}
    means = family.parameter_means()
    separation = gaussian_separation(means, family.noise_std)
    best = means.argmax(axis=1)
    apart = np.take_along_axis(separation, best[:, None, None], axis=2)[:, :, 0]
    s, r = np.triu_indices(len(means), 1)
    told = (best[s] != best[r]) & (apart[s, r] * apart[r, s] > 0)
    s, r = s[told], r[told]
    if not len(s):
        return {}
    speed = 2 * np.sqrt(apart[s, r] * apart[r, s])
    bound = separated_bound(one.weights, means, separation, None)
    steps = {
        "pairs": _mean(
            "E sum_t P_t(s) P_t(s') <= sqrt(P_0(s) P_0(s')) / (2 sqrt(alpha beta)), each pair",
            measured.pairs[:, s, r], np.sqrt(one.weights[s] * one.weights[r]) / speed,
        ),
    }  # fmt: skip
    if told.all():
        # Over all rounds: in one of them X falls a lot in the few runs that hit upon the state.
        paid = float(speed.min()) * measured.products[:, :-1].sum(axis=1)
        steps["shrinking"] = _mean(
            "2 sqrt(alpha beta) sum_t E X_t^2 <= E X_1 - E X_n, X_t = sqrt(P_t(s) P_t(s'))",
            paid, measured.roots[:, 0] - measured.roots[:, -1],
        )  # fmt: skip
    if math.isfinite(bound):
        steps["known models"] = _mean(
            "regret <= the bound for known models", measured.regret.sum(axis=1), bound
        )
    return steps
