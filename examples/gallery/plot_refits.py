"""
A year of refits
================

A service starts without a past. Every month new customers come, and the prior is learned again
from all customers so far, so each month's customers profit from earlier ones. The rival never
refits: it learns each customer from nothing. The bestseller is also found anew every month. The
customers are simulated.
"""

import matplotlib.pyplot as plt
import numpy as np

import mixts

n_arms, n, n_views, months = 8, 60, 20, 12  # customers a month, and views of a customer
rng = np.random.default_rng(7)
rates = 0.05 + 0.45 * rng.random((4, n_arms)) ** 3  # four kinds of customer
flat = mixts.MixturePrior(mixts.BernoulliArms.uniform(n_arms))
every = np.arange(n)


def draw_customers():
    """Return the click rates of a month's customers."""
    kind = rng.integers(4, size=n)
    return rng.beta(25 * rates[kind], 25 * (1 - rates[kind]))


def serve(agent, customers, luck):
    """Play one month; return the customers' expected click rates and the statistics."""
    earned = np.zeros(n)
    for view in range(n_views):
        item = agent.act()
        agent.update(item, luck[view, every, item] < customers[every, item])
        earned += customers[every, item] / n_views
    return earned, agent.belief.statistics


# %%
# Statistics of different customers concatenate, and ``learn_prior`` takes all of them. Each
# policy learns from its own decisions only. In the first month all agents start from the same
# flat prior.

earned = {"no refits": [], "bestseller": [], "refits, MixTS": [], "refits, MixIDS": []}
policies = {"refits, MixTS": mixts.MixTS, "refits, MixIDS": mixts.MixIDS}
priors, pasts = dict.fromkeys(policies, flat), {name: [] for name in policies}
shown, clicked = np.ones(n_arms), np.zeros(n_arms)  # what the bestseller's shop has seen
best = []
for month in range(months):
    customers, luck = draw_customers(), rng.random((n_views, n, n_arms))
    best.append(customers.max(axis=1))
    plain, past = serve(mixts.MixTS(flat, n_tasks=n, seed=month), customers, luck)
    earned["no refits"].append(plain)
    if month == 0:
        earned["bestseller"].append(plain)
    else:
        earned["bestseller"].append(customers[:, np.argmax(clicked / shown)])
    shown, clicked = shown + past.pulls.sum(axis=0), clicked + past.successes.sum(axis=0)
    for name, policy in policies.items():
        start = mixts.MixTS if month == 0 else policy
        one, statistics = serve(start(priors[name], n_tasks=n, seed=month), customers, luck)
        earned[name].append(one)
        pasts[name].append(statistics)
        n_components = 1 if month < 2 else 4
        priors[name] = mixts.learn_prior(pasts[name], n_components, seed=1, n_restarts=2)

# %%
# The bestseller even gets the clicks that the agent without refits collects.

for name, rows in earned.items():
    year = 100 * np.concatenate(rows)
    print(
        f"{name:15} {year.mean():.1f} ± {year.std() / year.size**0.5:.1f} clicks per 100 views in "
        f"the year, {100 * np.mean(rows[-1]):.1f} in the last month"
    )
print(f"best possible   {100 * np.mean(best):.1f}")

# %%
# Months differ because their customers do. The dotted line is the limit: the best item for each.

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
x = np.arange(1, months + 1)
colors = ["#D55E00", "#767676", "#0072B2", "#E69F00"]
ax.plot(x, 100 * np.mean(best, axis=1), ":", color="black", label="best possible")
for color, (name, rows) in zip(colors, earned.items(), strict=True):
    rows = 100 * np.array(rows)
    mean, error = rows.mean(axis=1), rows.std(axis=1) / n**0.5
    ax.plot(x, mean, "o-", color=color, label=name, linewidth=2, markersize=4)
    ax.fill_between(x, mean - error, mean + error, color=color, alpha=0.2, linewidth=0)
ax.set(xlabel="month", ylabel="clicks per 100 views (± 1 standard error)", xticks=x)
ax.set_ylim(bottom=0)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, ncols=2)
plt.show()
