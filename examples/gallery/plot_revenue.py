"""
Revenue: most visits bring nothing, a few bring much
====================================================

A shop recommends one of six items at each visit. Most visits end without a purchase, and
purchases differ widely in size. ``SpendArms`` asks two questions of every item: how often is it
bought, and how much is spent then? Gaussian arms see only a noisy number, mostly zero. This
example learns both families from the same visits, of simulated customers, and compares what they
earn.
"""

import matplotlib.pyplot as plt
import numpy as np

import mixts

N_ITEMS = 6
rng = np.random.default_rng(2)
# Three kinds of customer: how often they buy each item, and for how much (euros).
rates = rng.beta(1.0, 9.0, size=(3, N_ITEMS))
spends = np.exp(rng.normal(3.0, 0.7, size=(3, N_ITEMS)))


def draw_customers(n):
    """Return purchase rates and typical spends of n customers."""
    kind = rng.choice(3, size=n, p=[0.5, 0.3, 0.2])
    rate = rng.beta(20 * rates[kind] + 0.1, 20 * (1 - rates[kind]))
    return rate, spends[kind] * np.exp(0.3 * rng.normal(size=(n, N_ITEMS)))


def draw_revenue(rate, spend, shape):
    """Return the revenue of visits: zero, or a log-normal spend."""
    amount = spend * np.exp(0.6 * rng.normal(size=shape))
    return np.where(rng.random(shape) < rate, amount, 0.0)


# %%
# The past: 300 customers with 40 visits each, random items.

rate, spend = draw_customers(300)
items = rng.integers(N_ITEMS, size=(300, 40))
row = np.arange(300)[:, None]
revenue = draw_revenue(rate[row, items], spend[row, items], items.shape)
print(f"{np.mean(revenue == 0):.0%} of the visits bring nothing, the best one {revenue.max():.0f}")


def learn(statistics, n_components):
    """Learn a prior from the past visits, in the family of these statistics."""
    seen = statistics.observations(items.ravel(), revenue.ravel())
    statistics.observe(np.repeat(np.arange(300), 40), seen)
    return mixts.learn_prior(statistics, n_components, seed=1, n_restarts=2)


spend_prior = learn(mixts.families.SpendStatistics.empty((N_ITEMS,), n_tasks=300), 3)
gauss_prior = learn(mixts.families.GaussianStatistics.empty((N_ITEMS,), n_tasks=300), 3)

# %%
# The present: 300 new customers with 30 visits. The bestseller is the item with the highest
# average revenue in the past.

n, n_visits = 300, 30
rate, spend = draw_customers(n)
means = rate * spend * np.exp(0.6**2 / 2)
luck = draw_revenue(rate, spend, (n_visits, n, N_ITEMS))
every = np.arange(n)


def play(agent):
    """Return the expected revenue of each visit and customer."""
    earned = np.empty((n_visits, n))
    for visit in range(n_visits):
        item = agent.act()
        agent.update(item, luck[visit, every, item])
        earned[visit] = means[every, item]
    return earned


best = int(np.argmax([revenue[items == k].mean() for k in range(N_ITEMS)]))
earned = {"bestseller": np.tile(means[:, best], (n_visits, 1))}
for family, prior in (("Gaussian", gauss_prior), ("spend", spend_prior)):
    for policy in (mixts.MixTS, mixts.MixIDS, mixts.Greedy):
        earned[f"{family}, {policy.__name__}"] = play(policy(prior, n_tasks=n, seed=1))
base = earned["bestseller"].mean(axis=0)
print(
    f"per visit: bestseller {base.mean():.2f}, best for each {means.max(axis=1).mean():.2f} euros"
)

# %%
# Each mark is a gain over the bestseller, customer by customer. With Gaussian arms no policy
# beats the bestseller. With spend arms, Greedy does in 30 visits; the gain of MixIDS is less than
# two standard errors. In the first ten visits nobody does: purchases are rare, so a kind takes
# time to recognise. Thompson sampling explores too much for so few visits.

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
names = list(earned)[1:]
for visits, marker, shift in ((10, "s", 0.12), (n_visits, "o", -0.12)):
    for y, name in enumerate(names):
        gain = (earned[name][:visits] - earned["bestseller"][:visits]).mean(axis=0)
        error = gain.std() / n**0.5
        color = "#0072B2" if name.startswith("spend") else "#D55E00"
        print(f"{name:17} first {visits} visits: {gain.mean():+.2f} ± {error:.2f} per visit")
        fill = {"markerfacecolor": "white" if visits == 10 else color, "capsize": 3}
        ax.errorbar(gain.mean(), y + shift, xerr=2 * error, fmt=marker, color=color, **fill)
ax.plot([], [], "s", color="#333333", markerfacecolor="white", label="first 10 visits")
ax.plot([], [], "o", color="#333333", label=f"all {n_visits} visits")
ax.axvline(0, color="#767676", linewidth=1)
ax.set_yticks(range(len(names)), labels=names)
ax.set_xlabel("gain over the bestseller, in euros per visit (± 2 standard errors)")
ax.set_ylabel("family, policy")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
