"""What the parts of the regret, and both sides of the proof's inequalities, say."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mixts.bounds import crossing, linear_bound, lints_order, theorem1_bound, theorem1_terms
from mixts.diagnostics.decomposition import Decomposition
from mixts.experiments.base import Drawing, Findings, Measured
from mixts.experiments.paper._analysis import number, pm
from mixts.experiments.paper._synthetic import N_COMPONENTS, N_FEATURES, NOISE
from mixts.experiments.verdicts import equal, weaker
from mixts.pages import Claim, Table, Verdict
from mixts.plots import new_axes, new_panels, plot
from mixts.plots.lines import draw_lines

DRAWN_ROUNDS = 150
"""Of the parts' figure: afterwards hardly anything moves."""


def analyse(measured: Measured, results: Mapping[float, Decomposition]) -> Findings:
    """Both parts of the regret, the inequalities, and Theorem 1 beside earlier bounds."""
    n = measured.setting.n_rounds
    return Findings(
        (
            "The proof begins with the regret as the sum of two expectations (Eq. 1): by how much "
            "the best action is better than believed, and by how much the one taken is worse. Both "
            "are measured here, as are both sides of each inequality of Appendix A, on the "
            f"synthetic bandit with L = {N_COMPONENTS}.",
            "Below, Theorem 1 beside the bounds that Section 4.3 discusses: the linear one of "
            "earlier work, c' n + √(L n), whose constants are this proof's with widths held at the "
            "prior's, because the discussion gives orders only; and the frequentist d^(3/2) √n, "
            "an order without constant or logarithms.",
        ),
        (_identity(results), _widths(results), *_discussion(n, results)),
        (_parts_table(results), _inequality_table(results), _bound_table(n, results)),
        (_parts_drawing(results), _bounds_drawing(n, results)),
        _headline(results),
    )


def _headline(results: Mapping[float, Decomposition]) -> str:
    steps = [step.holds for one in results.values() for step in one.inequalities().values()]
    return (
        f"Of the steps of Theorem 1's proof that were measured, {sum(steps)} of {len(steps)} hold "
        "on this bandit."
    )


def _identity(results: Mapping[float, Decomposition]) -> Claim:
    gaps = {width: one.total("gap") for width, one in results.items()}
    texts = []
    for width, one in results.items():
        gap, regret = gaps[width], one.total("regret")
        texts.append(
            f"width {width:g}: regret {regret.mean:.2f}, sum − regret {gap.mean:.2g} ± "
            f"{gap.error:.2g}"
        )
    width, one = next(iter(results.items()))
    equal_runs = int((np.abs(one.gap.sum(axis=1)) < 1e-9).sum())
    return Claim(
        "Sec. 4.1",
        "The Bayes regret is the sum of the two expectations of Eq. 1.",
        "; ".join(texts),
        weaker(*(equal(gap) for gap in gaps.values())),
        f"At width {width:g} the two agree in {equal_runs} of {len(one.latent)} single runs: the "
        "larger width is the test.",
    )


def _widths(results: Mapping[float, Decomposition]) -> Claim:
    steps = {width: one.inequalities()["widths"] for width, one in results.items()}
    measured = ", ".join(
        f"{number(step.means[0].mean)} ≤ {number(step.means[1].mean)} (width {width:g})"
        for width, step in steps.items()
    )
    share = min(step.share for step in steps.values())
    return Claim(
        "App. A",
        "The sum of the confidence widths σ_t(A_t, S_t) is at most σ d √(2 c₁ n log(dn)).",
        f"{measured}; in {share:.0%} of runs",
        "holds" if all(step.holds for step in steps.values()) else "does not hold",
    )


def _discussion(n: int, results: Mapping[float, Decomposition]) -> tuple[Claim, ...]:
    compared, c1 = [], {}
    for width in results:
        arguments = (N_FEATURES, N_COMPONENTS, NOISE, 1.0, width**2)
        at = crossing(N_FEATURES, NOISE, 1.0, width**2)
        compared.append((width, theorem1_bound(n, *arguments), linear_bound(n, *arguments), at))
        c1[width] = float(theorem1_terms(n, *arguments).c1)
    below = [ours < theirs for _, ours, theirs, _ in compared]
    narrow = next(iter(results))
    slope = _slope(n, narrow)
    improves = min(c1.values()) < N_FEATURES and N_COMPONENTS**0.5 < N_FEATURES**1.5
    verdict: Verdict = "holds" if all(below) and slope < 1 else "direction only"
    return (
        Claim(
            "Sec. 4.3",
            "The bound is fully sublinear in n, where earlier work has a linear one.",
            ", ".join(
                f"{number(ours)} against {number(theirs)} (width {width:g}, smaller from n = "
                f"{at:.0f} on)"
                for width, ours, theirs, at in compared
            ),
            verdict if any(below) else "does not hold",
            f"At n = {n:,} the bound grows with a power of {slope:.2f} of n. The linear bound has "
            "constants of ours, those of Theorem 1: the discussion gives orders only.",
        ),
        Claim(
            "Sec. 4.3",
            "With an informative prior c₁ < d, and with few components √L < d^(3/2): the bound "
            "improves over the frequentist d^(3/2) √n.",
            ", ".join(f"c₁ = {value:.1f} at width {width:g}" for width, value in c1.items())
            + f"; below d = {N_FEATURES} up to width {_informative(n):.2f}; √L = "
            f"{N_COMPONENTS**0.5:.1f}, d^(3/2) = {N_FEATURES**1.5:.0f}",
            "holds" if improves else "does not hold",
            "Of orders: neither has its constants here.",
        ),
    )


def _slope(n: int, width: float) -> float:
    """The power of n with which Theorem 1 grows at n."""
    arguments = (N_FEATURES, N_COMPONENTS, NOISE, 1.0, width**2)
    step = 1.01
    bounds = theorem1_bound(np.array([n / step, n * step]), *arguments)
    return float(np.log(bounds[1] / bounds[0]) / (2 * np.log(step)))


def _informative(n: int) -> float:
    """The width at which c_1 = d."""
    low, high = 1e-3, 10.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        c1 = float(theorem1_terms(n, N_FEATURES, 1, NOISE, 1.0, middle**2).c1)
        low, high = (middle, high) if c1 < N_FEATURES else (low, middle)
    return low


def _parts_table(results: Mapping[float, Decomposition]) -> Table:
    rows = tuple(
        (
            f"{width:g}", pm(one.total("first")), pm(one.total("second")), pm(one.total("sum")),
            pm(one.total("regret")),
            f"{one.total('gap').mean:.2g} ± {one.total('gap').error:.2g}",
        )
        for width, one in results.items()
    )  # fmt: skip
    return Table(
        ("width", "first part", "second part", "their sum", "regret", "sum − regret"),
        rows,
        "The two expectations of Eq. 1: on average they sum to the regret, in a single run they "
        "need not.",
    )


def _inequality_table(results: Mapping[float, Decomposition]) -> Table:
    """One row for each step of the proof, with both sides at every width."""
    steps = {width: one.inequalities() for width, one in results.items()}
    rows = []
    for name, first in next(iter(steps.values())).items():
        cells = []
        for inequalities in steps.values():
            left, right = inequalities[name].means
            cells.append(f"{number(left.mean)} ≤ {number(right.mean)}")
        seen = all(inequalities[name].holds for inequalities in steps.values())
        kind = "means" if first.in_expectation else "every run"
        rows.append((in_symbols(first.claim), first.place, kind, *cells, "yes" if seen else "no"))
    return Table(
        ("step", "place", "claimed of", *(f"width {width:g}" for width in results), "holds"),
        tuple(rows),
        "Steps of the proof of Theorem 1, both sides on average over runs. All components here "
        "share the covariance σ₀² I, so several steps are equalities; the two about the sum of "
        "maxima and about the trace fail for other priors.",
        (False, False, False, *([False] * len(results)), False),
    )


_SYMBOLS = {
    "sum_t": "Σ_t", "sigma": "σ", "kappa": "κ", "lambda": "λ", "sqrt": "√", "<=": "≤",
    "log det ratio": "log det Σ₀,s/Σ_n+1,s", "Sigma": "Σ", "^2": "²", "(2 pi)": "(2π)",
    "c_1": "c₁", "_{t,s}": "_t,s", "_{t,S_t}": "_t,S_t", "^-1": "⁻¹", "A_t*": "A_t,*",
}  # fmt: skip


def in_symbols(text: str) -> str:
    """Names of symbols as symbols, as elsewhere on the page."""
    for name, symbol in _SYMBOLS.items():
        text = text.replace(name, symbol)
    return text


def _bound_table(n: int, results: Mapping[float, Decomposition]) -> Table:
    rows = []
    for width, one in results.items():
        arguments = (N_FEATURES, N_COMPONENTS, NOISE, 1.0, width**2)
        rows.append(
            (
                f"{width:g}",
                pm(one.total("regret")),
                number(theorem1_bound(n, *arguments)),
                number(theorem1_bound(n, *arguments, form="appendix")),
                number(linear_bound(n, *arguments)),
                number(lints_order(n, N_FEATURES)),
            )
        )
    return Table(
        (
            "width",
            "regret",
            "Theorem 1, statement",
            "appendix",
            "linear bound, our constants",
            "order d^(3/2) √n",
        ),
        tuple(rows),
        f"Bounds at n = {n:,}.",
    )


def _parts_drawing(results: Mapping[float, Decomposition]) -> Drawing:
    panels = new_panels(len(results))
    for ax, (width, one) in zip(panels, results.items(), strict=True):
        plot(one, ax, title=f"width {width:g}", rounds=min(DRAWN_ROUNDS, one.n_rounds))
    ends = "; ".join(
        f"at width {width:g} they end at {one.total('first').mean:.1f} and "
        f"{one.total('second').mean:.1f}, the regret at {one.total('regret').mean:.1f}"
        for width, one in results.items()
    )
    return Drawing(
        "parts",
        panels[0].figure,
        f"Charts of the cumulative regret, its two parts and their sum over rounds: {ends}.",
        "The regret and the two expectations of Eq. 1, whose sum it is.",
    )


def _bounds_drawing(n: int, results: Mapping[float, Decomposition]) -> Drawing:
    axes = new_axes()
    rounds = np.unique(np.geomspace(2, n, 60).astype(int)).astype(float)
    width = next(iter(results))
    arguments = (N_FEATURES, N_COMPONENTS, NOISE, 1.0, width**2)
    regret = results[width].curve("regret").mean[rounds.astype(int) - 1]
    draw_lines(
        axes,
        rounds,
        {
            "regret": regret,
            "Theorem 1": theorem1_bound(rounds, *arguments),
            "linear bound": linear_bound(rounds, *arguments),
            r"order $d^{3/2}\sqrt{n}$": lints_order(rounds, N_FEATURES),
        },
        "round", "regret and bounds", log=True,
    )  # fmt: skip
    return Drawing(
        "bounds",
        axes.figure,
        "Line chart on logarithmic axes: the regret levels off; Theorem 1 bends below the linear "
        "bound; of the frequentist order, which has no constant, only the slope counts.",
        f"Bounds over the number of rounds at width {width:g}, beside the regret.",
    )
