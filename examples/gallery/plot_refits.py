"""
A year of refits
================

A service starts without a past. Every month 80 new customers come, with only eight views each,
and in July their tastes change. The service learns its prior again every month, from the
customers of the last three months. The rivals learn a prior once, after the first month, or
never; and the bestseller is found anew every month. The customers are simulated.
"""

import matplotlib.pyplot as plt
import numpy as np

import mixts

n_arms, n, n_views, months = 8, 80, 8, 12
rng = np.random.default_rng(7)
tastes = 0.05 + 0.55 * rng.random((2, 4, n_arms)) ** 3  # four kinds, until June and from July on
every = np.arange(n)


def serve(prior, customers, luck):
    """Serve a month's customers; return their mean click rates and their statistics."""
    agent = mixts.MixIDS(prior, n_tasks=n, seed=1)
    earned = np.zeros(n)
    for view in range(n_views):
        item = agent.act()
        agent.update(item, luck[view, every, item] < customers[every, item])
        earned += customers[every, item] / n_views
    return earned, agent.belief.statistics


# %%
# ``learn_prior`` takes a list with the statistics of several months. ``robust=0.05`` adds a broad
# component for customers unlike any seen before. In the first month nobody knows anything. The
# bestseller has the best click rate in the last three months of the agent that never learns a
# prior.

flat = mixts.MixturePrior(mixts.BernoulliArms.uniform(n_arms))
refitted = once = flat
past, plain = [], []
earned = {name: [] for name in ("refit every month", "learn once", "bestseller", "never learn")}
possible = []
for month in range(months):
    rates = tastes[month // 6][rng.integers(4, size=n)]
    customers = rng.beta(25 * rates, 25 * (1 - rates))
    luck = rng.random((n_views, n, n_arms))
    possible.append(customers.max(axis=1))
    clicks, statistics = serve(refitted, customers, luck)
    earned["refit every month"].append(clicks)
    past.append(statistics)
    refitted = mixts.learn_prior(past[-3:], n_components=4, robust=0.05, seed=1, n_restarts=2)
    earned["learn once"].append(serve(once, customers, luck)[0])
    once = refitted if month == 0 else once
    clicks, statistics = serve(flat, customers, luck)
    earned["never learn"].append(clicks)
    if month:
        shown, clicked = (sum(part) for part in zip(*plain[-3:], strict=True))
        clicks = customers[:, np.argmax(clicked / shown)]
    earned["bestseller"].append(clicks)
    plain.append((statistics.pulls.sum(axis=0), statistics.successes.sum(axis=0)))

# %%
# Customers differ from month to month, so the picture compares with the best item for each
# customer of the month. One month's standard errors are about three per cent.

limit = np.mean(possible, axis=1)
for name, clicks in earned.items():
    share = 100 * np.mean(clicks, axis=1) / limit
    parts = share[1:6], share[6:9], share[9:]
    text = ", ".join(f"{part.mean():.0f} %" for part in parts)
    print(f"{name:18} February to June, July to September, October to December: {text}")

# %%
# While tastes stay the same, a prior that was learned once earns more than one that is always new.
# An agent that decides well tries few other items, so its last three months say little about them
# (``mixts.learning.refit_prior`` goes on from an earlier prior instead). After the change, the
# refits recover within about three months, when the old customers have left the window, and the
# prior that was learned once does not recover at all.

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
x = np.arange(1, months + 1)
colors = ["#0072B2", "#009E73", "#767676", "#D55E00"]
for color, (name, clicks) in zip(colors, earned.items(), strict=True):
    mean = 100 * np.mean(clicks, axis=1) / limit
    error = 100 * np.std(clicks, axis=1) / n**0.5 / limit
    ax.plot(x, mean, "o-", color=color, label=name, linewidth=2, markersize=4)
    ax.fill_between(x, mean - error, mean + error, color=color, alpha=0.15, linewidth=0)
ax.set(xlabel="month", ylabel="clicks, in % of the best possible\n(± 1 standard error)", xticks=x)
ax.axvline(6.5, color="#bbbbbb", linestyle="--")
ax.text(6.6, 80, "tastes change", color="#767676", va="top")
ax.set_ylim(bottom=0)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="lower left")
plt.show()
