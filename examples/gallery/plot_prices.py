"""
Prices: which one earns most in a new shop?
===========================================

A chain opens shops and chooses one of seven prices each week. The profit of a week is a noisy
real number, so the arms are Gaussian. Older shops show three kinds of customers: some look for
the lowest price, some hardly look at it. The picture shows what a new shop loses until it has
found its price. The shops are simulated.
"""

import matplotlib.pyplot as plt
import numpy as np

import mixts

prices = np.array([4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0])
rng = np.random.default_rng(3)


def draw_shops(n):
    """Return the mean weekly profit of n shops at each price."""
    kind = rng.choice(3, size=n, p=[0.4, 0.4, 0.2])
    limit = np.array([5.5, 7.5, 11.0])[kind] + 0.4 * rng.normal(size=n)  # what customers accept
    size = np.array([130.0, 100.0, 70.0])[kind] * np.exp(0.1 * rng.normal(size=n))
    buyers = size[:, None] / (1 + np.exp((prices - limit[:, None]) / 0.6))
    return buyers * (prices - 3.0)  # each item costs 3


NOISE = 60.0

# %%
# The past: 120 shops tried random prices in 30 weeks. Learning also estimates the noise.

past = draw_shops(120)
tried = rng.integers(7, size=(120, 30))
profits = np.take_along_axis(past, tried, axis=1) + NOISE * rng.normal(size=(120, 30))
prior = mixts.learn_prior(list(zip(tried, profits, strict=True)), n_components=3, seed=1)
print(prior)
print(f"learned noise: {prior.family.noise_std:.1f} (true: {NOISE:.0f})")

# %%
# The present: 400 new shops, 52 weeks. The fixed price is the one that was best on average. A
# bandit for each shop knows the mean and the spread of all past profits, and nothing else.

n, weeks = 400, 52
shops = draw_shops(n)
luck = NOISE * rng.normal(size=(weeks, n))
every = np.arange(n)


def play(agent):
    """Return the profit that the shops lose each week, beside their own best prices."""
    lost = np.empty((weeks, n))
    for week in range(weeks):
        price = agent.act()
        agent.update(price, shops[every, price] + luck[week])
        lost[week] = shops.max(axis=1) - shops[every, price]
    return lost


spread = profits.var() - NOISE**2
vague = mixts.GaussianArms(np.full((1, 7), profits.mean()), np.full((1, 7), spread), NOISE)
fixed = np.argmax([profits[tried == k].mean() for k in range(7)])
lost = {
    f"fixed price, {prices[fixed]:.0f}": np.tile(shops.max(axis=1) - shops[:, fixed], (weeks, 1)),
    "one bandit each": play(mixts.MixTS(mixts.MixturePrior(vague), n_tasks=n, seed=1)),
    "MixTS": play(mixts.MixTS(prior, n_tasks=n, seed=1)),
    "MixIDS": play(mixts.MixIDS(prior, n_tasks=n, seed=1)),
}
for name, money in lost.items():
    year = money.sum(axis=0)
    print(
        f"{name:16} loses {year.mean():6.0f} ± {year.std() / n**0.5:4.0f} a shop in {weeks} weeks"
    )

# %%
# Left: the profit curves of the learned components, with bands of one standard deviation between
# shops. Right: the loss.

fig, (left, right) = plt.subplots(1, 2, figsize=(7.4, 3.8), layout="constrained")
for s in np.argsort(-prior.weights):
    mean, spread = prior.family.mean[s], prior.family.variance[s] ** 0.5
    (line,) = left.plot(prices, mean, "o-", markersize=4, label=f"{prior.weights[s]:.0%} of shops")
    left.fill_between(prices, mean - spread, mean + spread, color=line.get_color(), alpha=0.15)
left.set(xlabel="price, in euros", ylabel="weekly profit, in euros", title="kinds of shop")
left.legend(frameon=False, fontsize=9)
colors = ["#767676", "#D55E00", "#0072B2", "#E69F00"]
for color, (name, money) in zip(colors, lost.items(), strict=True):
    total = money.cumsum(axis=0) / 1000
    mean, error = total.mean(axis=1), 2 * total.std(axis=1) / n**0.5
    right.plot(np.arange(1, weeks + 1), mean, color=color, label=name, linewidth=2)
    right.fill_between(np.arange(1, weeks + 1), mean - error, mean + error, color=color, alpha=0.2)
right.set(xlabel="week", ylabel="loss per shop so far, in 1,000 euros", ylim=(0, None))
right.set_title("a new shop (± 2 standard errors)")
right.legend(frameon=False, fontsize=9)
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
