"""What RiverSwim says about MixTS and PSRL, and about Theorem 2."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mixts._typing import Array
from mixts.bounds import episode_width_sum_bound, theorem2_bound
from mixts.environments import RiverSwim
from mixts.environments.riverswim import CURRENTS
from mixts.experiments.base import Arrays, Drawing, Findings, Measured
from mixts.experiments.paper._analysis import number, pm
from mixts.experiments.verdicts import better, weaker
from mixts.pages import Claim, Table, Verdict
from mixts.plots import new_panels, plot
from mixts.simulation import Results, estimate

KNOWN = 0.99
"""The probability of the true current from which on it counts as known."""
GREAT = 10.0
"""What counts as "greatly" and as "much more quickly": ten times."""
HARDLY = 0.1
"""A mean regret of an episode that is hardly any: a tenth of one reward."""


def analyse(measured: Measured, river: RiverSwim, min_pseudo_count: float) -> Findings:
    """Regret of all agents, how soon the current is known, and Theorem 2 beside the regret."""
    results = measured.results("agents")
    n = measured.setting.n_rounds
    bounds = {
        form: theorem2_bound(n, river.n_states, 2, river.horizon, 2, min_pseudo_count, form=form)
        for form in ("statement", "appendix")
    }
    summary = results.summary()
    times = summary["PSRL"].regret.mean / summary["MixTS"].regret.mean
    return Findings(
        (
            f"A chain of {river.n_states} states, episodes of {river.horizon} steps that begin in "
            "the sixth state, and a current to the left or to the right. The paper does not give "
            f"the strength of the priors: here {river.strength:g} counts for each pair of state "
            "and action, and what has mean zero in its figure is impossible: so a single episode "
            "tells the current.",
            "PSRL has the uniform prior over all rewards and transitions, as in the paper; "
            "“PSRL, neighbours” is told which states can follow each other. UniTS has one river "
            "with the mixture's moments, and the oracle is MixTS told the current.",
        ),
        (
            *_agent_claims(results),
            _current_claim(results, measured.parts["current"]["truth"]),
            _policy_claim(river),
            _bound_claim(results, bounds, n * river.horizon),
            *_lemma_claims(measured.parts["widths"], river, n, min_pseudo_count),
        ),
        (_table(results), _bound_table(results, bounds, n * river.horizon)),
        (_drawing(results),),
        f"On RiverSwim PSRL has {times:.0f} times the regret of MixTS.",
    )


def _agent_claims(results: Results) -> tuple[Claim, ...]:
    summary = results.summary()
    mine = summary["MixTS"].regret
    claims = []
    for other, text, note in (
        ("PSRL", "MixTS greatly outperforms PSRL, which has a uniform prior.", ""),
        (
            "PSRL, neighbours",
            "The same against PSRL that is told which states are neighbours.",
            "Not in the paper: much of what PSRL has to learn is which states can follow.",
        ),
    ):
        theirs = summary[other].regret
        gap = results.difference(other, "MixTS")
        claims.append(
            Claim(
                "Sec. 6.3",
                text,
                f"{pm(mine, 1)} against {pm(theirs, 1)}, {theirs.mean / mine.mean:.0f} times",
                weaker(better(gap), _great(theirs.mean / mine.mean)),
                note,
            )
        )
    return tuple(claims)


def _great(times: float) -> Verdict:
    return "holds" if times >= GREAT else "direction only"


def _current_claim(results: Results, weights: Array) -> Claim:
    """How soon the current is known, and how soon the agents hardly lose any more."""
    known = weights > KNOWN
    first = f"after one episode in {known[:, 0].mean():.1%} of runs"
    settled = {name: _settled(results, name) for name in ("MixTS", "PSRL", "PSRL, neighbours")}
    n = results.settings["n_rounds"]
    late = {name: "never" if at is None else f"from episode {at}" for name, at in settled.items()}
    mine = settled["MixTS"] or n + 1
    sooner = all(GREAT * mine <= (settled[name] or n + 1) for name in ("PSRL", "PSRL, neighbours"))
    return Claim(
        "Sec. 6.3",
        "MixTS identifies the direction of the current much more quickly than PSRL learns rewards "
        "and transitions.",
        f"known (above {KNOWN:g}) {first}; mean regret of an episode below {HARDLY:g}: MixTS "
        f"{late['MixTS']}, PSRL {late['PSRL']}, with neighbours {late['PSRL, neighbours']}",
        "holds"
        if sooner and known[:, min(4, known.shape[1] - 1)].mean() > 0.95
        else "does not hold",
        f"Of MixTS's regret {results.regret['MixTS'][:, 0].mean():.2f} is the first episode's.",
    )


def _settled(results: Results, agent: str) -> int | None:
    """From which episode on, counted from 1, the mean regret stays small."""
    large = np.flatnonzero(results.regret[agent].mean(axis=0) >= HARDLY)
    after = int(large[-1]) + 2 if large.size else 1
    return after if after <= results.settings["n_rounds"] else None


def _policy_claim(river: RiverSwim) -> Claim:
    """What the best policy of each mean MDP does in its first step."""
    # Actions are to the left and to the right, in this order.
    policies = {
        current: river.mean_mdp(current).plan().policy[0] == (0 if current == "right" else 1)
        for current in CURRENTS
    }
    against = {current: int(upstream.sum()) for current, upstream in policies.items()}
    starts = [upstream[river.start_state] for upstream in policies.values()]
    n = river.n_states
    return Claim(
        "Sec. 6.3",
        "The optimal policy swims against the current, to the large reward.",
        f"in the mean MDPs, first step: against the current from {against['left']} (left) and "
        f"{against['right']} (right) of {n} states, the starting one included",
        "holds" if all(starts) else "does not hold",
        "" if min(against.values()) == n else "From the far end 20 steps are too few.",
    )


def _bound_claim(results: Results, bounds: Mapping[str, float], trivial: int) -> Claim:
    mine = results.summary()["MixTS"].regret
    return Claim(
        "Thm 2",
        "The Bayes regret is at most the bound.",
        f"{pm(mine, 1)} against {number(bounds['statement'])}",
        "holds" if mine.mean <= min(bounds.values()) else "does not hold",
        f"No agent can lose more than n h = {trivial:,}: at this size the bound says nothing.",
    )


def _lemma_claims(
    sums: Arrays, river: RiverSwim, n: int, min_pseudo_count: float
) -> tuple[Claim, ...]:
    """Both sides of what App. B says of the widths, and of the latent confidence sets."""
    size = (n, river.n_states, 2, river.horizon, min_pseudo_count)
    lemma, proof = (
        float(episode_width_sum_bound(*size, form=form)) for form in ("statement", "appendix")
    )
    widths, missed, excluded = (sums[name] for name in ("widths", "missed", "excluded"))
    allowed = 2 * 2 * river.horizon / n
    return (
        Claim(
            "Lemma 6",
            "The sum of the confidence widths of all episodes is at most "
            "4|X|h √(c₁|A|nh log(4|X||A|n)) + |X||A|h².",
            f"{number(widths.mean())} on average and {number(widths.max())} at most in "
            f"{len(widths)} runs, against {number(lemma)} (its proof: {number(proof)})",
            "holds" if widths.max() <= lemma else "does not hold",
        ),
        Claim(
            "Lemma 7",
            "In any episode the true latent state is outside its confidence set with probability "
            "at most 2Lh/n.",
            f"missed in {int(missed.sum())} of {len(missed)} runs in any of {n:,} episodes; "
            f"2Lh/n = {allowed:.2g}",
            "holds" if missed.mean() <= allowed else "does not hold",
            f"In {int(excluded.sum())} of {len(excluded)} runs the sets ever exclude a current at "
            "the proofs' η.",
        ),
    )


def _table(results: Results) -> Table:
    rows = []
    for name, summary in results.summary().items():
        first = estimate(results.regret[name][:, : min(100, results.settings["n_rounds"])].sum(1))
        rows.append(
            (
                name, pm(summary.regret), f"{summary.median_regret:.2f}", pm(first),
                f"{summary.reward.mean:.3f} ± {summary.reward.error:.3f}",
            )
        )  # fmt: skip
    return Table(
        ("agent", "regret", "median", "in the first 100 episodes", "return of an episode"),
        tuple(rows),
        f"Cumulative regret after {results.settings['n_rounds']:,} episodes, "
        f"{results.settings['n_runs']} runs.",
    )


def _bound_table(results: Results, bounds: Mapping[str, float], trivial: int) -> Table:
    rows = [(f"Theorem 2, {form}", number(bound)) for form, bound in bounds.items()]
    rows += [
        ("no agent can lose more than n h", number(trivial)),
        ("MixTS's regret", pm(results.summary()["MixTS"].regret)),
    ]
    return Table(
        ("what", "value"),
        tuple(rows),
        "Theorem 2 at the paper's own setting is above what any agent can lose.",
        (False, True),
    )


def _drawing(results: Results) -> Drawing:
    left, right = new_panels(2)
    plot(results, left, agents=["MixTS", "PSRL, neighbours", "PSRL"], rounds="episode")
    figure = plot(results, right, log=True, rounds="episode", bottom=0.1)
    means = {name: summary.regret.mean for name, summary in results.summary().items()}
    return Drawing(
        "regret",
        figure,
        "Two charts of cumulative regret over episodes: "
        + ", ".join(f"{name} ends at {mean:.1f}" for name, mean in means.items())
        + ".",
        "Cumulative regret on RiverSwim, mean with a band of one standard error. Left: MixTS and "
        "PSRL. Right: all agents on a logarithmic axis.",
    )
