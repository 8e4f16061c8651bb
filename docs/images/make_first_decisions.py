"""Draw docs/images/first-decisions.png: the first 30 views of new visitors to the README's shop.

    python -m docs.images.make_first_decisions

The prior is learned from 500 simulated visitors of the past, who saw 25 random banners each. New
visitors then meet four ways of choosing their banners. Needs the extra `plots`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from mixts_paper.studies import BESTSELLER, bestseller
from mixts_paper.studies.policies import shop_prior

import mixts
from mixts.plots import style

N_PAST, N_SHOWN, N_NEW, N_VIEWS = 500, 25, 4000, 30
OWN = "one bandit per visitor"
LABELS = {
    "MixIDS": "MixIDS, learned prior",
    "MixTS": "MixTS, learned prior",
    BESTSELLER: "the bestseller for everybody",
    OWN: "one bandit per visitor:\nThompson sampling from scratch",
}
"""The label at the end of each line."""


def learned_prior(shop: mixts.MixturePrior) -> mixts.MixturePrior:
    """Learn a prior of three kinds from past visitors, who saw random banners."""
    rng = np.random.default_rng(1)
    _, rates = shop.draw(rng, N_PAST)
    visitors, past = np.arange(N_PAST), shop.belief(n_tasks=N_PAST)
    for _ in range(N_SHOWN):
        shown = rng.integers(5, size=N_PAST)
        past.update(shown, rng.random(N_PAST) < rates[visitors, shown])
    return mixts.learn_prior(past.statistics, n_components=3, seed=1)


def play(agent: Any, rates: Any) -> Any:
    """Return the click rate of every banner that the agent shows, (visitors, views)."""
    rng, visitors = np.random.default_rng(3), np.arange(N_NEW)
    earned = np.empty((N_NEW, N_VIEWS))
    for view in range(N_VIEWS):
        shown = agent.act()
        earned[:, view] = rates[visitors, shown]
        agent.update(shown, rng.random(N_NEW) < earned[:, view])
    return earned


def click_rates() -> tuple[dict[str, Any], float]:
    """Return the click rates under each agent, and the mean rate of the visitors' best banners."""
    shop = shop_prior()
    prior = learned_prior(shop)
    flat = mixts.MixturePrior(mixts.BernoulliArms.uniform(n_arms=5))
    _, rates = shop.draw(np.random.default_rng(2), N_NEW)
    agents = {
        "MixIDS": mixts.MixIDS(prior, n_tasks=N_NEW, seed=1),
        "MixTS": mixts.MixTS(prior, n_tasks=N_NEW, seed=1),
        BESTSELLER: bestseller(prior)(n_tasks=N_NEW),
        OWN: mixts.MixTS(flat, n_tasks=N_NEW, seed=1),
    }
    earned = {name: play(agent, rates) for name, agent in agents.items()}
    return earned, float(rates.max(axis=1).mean())


def draw(earned: dict[str, Any], best: float) -> Any:
    """Draw the mean click rate of every view, with a band of two standard errors."""
    ax = style.new_axes(7.0, 3.4)
    views = np.arange(1, N_VIEWS + 1)
    ax.axhline(best, color=style.GREY, linewidth=0.8)
    ax.text(1.3, best + 0.005, "each visitor's best banner", size=style.FONT, color=style.GREY)
    styles = {**style.looks(["MixIDS", "MixTS", "TS"]), **style.looks([BESTSELLER])}
    for name, rates in earned.items():
        color, dashes = styles["TS" if name == OWN else name]
        mean, error = rates.mean(axis=0), rates.std(axis=0, ddof=1) / np.sqrt(N_NEW)
        ax.fill_between(views, mean - 2 * error, mean + 2 * error, color=color, alpha=0.2, lw=0)
        ax.plot(views, mean, color=color, linestyle=dashes, linewidth=style.LINE)
        place = (N_VIEWS + 0.4, mean[-1])
        ax.text(*place, LABELS[name], size=style.FONT, color=style.legible(color), va="center")
    ax.set(xlim=(1, N_VIEWS), xlabel="view of a new visitor", ylabel="mean click rate of the view")
    ax.set_ylim(0.15, best + 0.025)
    ax.set_xticks([1, 5, 10, 15, 20, 25, 30])
    for label in (ax.xaxis.label, ax.yaxis.label):
        label.set(size=style.FONT, color=style.INK)
    return ax.figure


def main() -> None:
    """Play, print the sums of the first views, and draw."""
    earned, best = click_rates()
    for n in (1, 5, 10, 30):
        print(f"clicks in the first {n} views, at best {n * best:.2f}")
        for name, rates in earned.items():
            sums = rates[:, :n].sum(axis=1)
            print(f"  {name:22} {sums.mean():6.2f} ± {sums.std(ddof=1) / np.sqrt(N_NEW):.2f}")
    path = Path(__file__).with_name("first-decisions.png")
    draw(earned, best).savefig(path, dpi=style.PNG_DPI, metadata={"Software": None})


if __name__ == "__main__":
    main()
