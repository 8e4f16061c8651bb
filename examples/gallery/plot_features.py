"""
Clicks with named features
==========================

Every visit offers other items, described by a price and a brand. So there are no fixed arms to
learn about: the agent learns what a person likes. ``LinearBernoulli`` is a logistic model with a
mixture of kinds of people; features have names, and text becomes numbers by itself. The people
are simulated.
"""

import matplotlib.pyplot as plt
import numpy as np

import mixts

rng = np.random.default_rng(4)
brand = mixts.LevelFeature("brand", ("acme", "bolt", "core"), reference="acme")
features = mixts.Features([mixts.NumberFeature("price"), brand], intercept=True)
print(features.names)
# Effects on the log odds of a click: bargain hunters, and friends of the brand bolt.
tastes = np.array([[1.0, -0.9, 0.2, 0.0], [-1.5, 0.1, 2.0, -0.5]])


def draw_people(n):
    """Return the coefficients of n people, half of each kind."""
    return tastes[np.arange(n) % 2] + 0.3 * rng.normal(size=(n, 4))


def draw_offers(*shape):
    """Return rows of features: an intercept, a price from 1 to 6, and a brand."""
    brand = rng.integers(3, size=shape)
    price = rng.uniform(1, 6, size=shape).round(1)
    return np.stack([np.ones(shape), price, brand == 1, brand == 2], axis=-1)


def click_rates(offers, people):
    """Return the probability that each person clicks each offer."""
    return 1 / (1 + np.exp(-np.einsum("...kd,...d->...k", offers, people)))


# %%
# The past: 150 people, 25 random items each. ``learn_prior`` sees that all rewards are 0 or 1.

past = draw_people(150)
seen = draw_offers(150, 25)
clicked = (rng.random((150, 25)) < click_rates(seen, past)).astype(float)
history = list(zip(seen, clicked, strict=True))
learned = mixts.learn_prior(history, n_components=2, seed=1, n_restarts=2)
prior = mixts.MixturePrior(learned.family, learned.weights, features=features)
one_kind = mixts.learn_prior(history, n_components=1, seed=1)
offer = [{"price": 1.5, "brand": "core"}, {"price": 5.0, "brand": "bolt"}]
print("expected click rates of a new person:", prior.belief().mean_rewards(offer).round(2))

# %%
# The present: 80 new people, 20 visits, eight items on offer at each visit. The simplest thing
# that works is the item that an average person would click most often.

n, n_visits = 80, 20
people = draw_people(n)
offers = draw_offers(n_visits, n, 8)
luck = rng.random((n_visits, n, 8))
every = np.arange(n)


def play(agent, learns=True):
    """Return the clicks that the agent missed in each visit, on average."""
    missed = np.empty((n_visits, n))
    for visit in range(n_visits):
        item = agent.act(offers[visit])
        rates = click_rates(offers[visit], people)
        if learns:
            agent.update(offers[visit, every, item], luck[visit, every, item] < rates[every, item])
        missed[visit] = rates.max(axis=1) - rates[every, item]
    return missed


flat = mixts.LinearBernoulli(np.zeros((1, 4)), np.full((1, 4), 4.0), covariance_type="diag")
missed = {
    "the same taste for all": play(mixts.Greedy(one_kind, n_tasks=n), learns=False),
    "one bandit each": play(mixts.MixTS(mixts.MixturePrior(flat), n_tasks=n, seed=1)),
    "MixTS, two kinds": play(mixts.MixTS(prior, n_tasks=n, seed=1)),
    "MixIDS, two kinds": play(mixts.MixIDS(prior, n_tasks=n, seed=1)),
}
for name, clicks in missed.items():
    total = clicks.sum(axis=0)
    print(f"{name:23} misses {total.mean():.2f} ± {total.std() / n**0.5:.2f} clicks in {n_visits}")

# %%
# Left: what the two learned kinds think of prices. Right: one bandit for each person misses more
# clicks than one taste for all, because four numbers cannot be learned from 20 clicks or misses.
# MixTS overtakes the one taste after some visits, and MixIDS at once.

fig, (left, right) = plt.subplots(1, 2, figsize=(7.4, 3.8), layout="constrained")
prices = np.linspace(1, 6, 50)
for kind, color in enumerate(("#882255", "#009E73")):
    for brand, dashes in (("acme", "-"), ("bolt", "--")):
        rows = features.rows([{"price": price, "brand": brand} for price in prices])
        rate = 100 * click_rates(rows, prior.family.mean[kind])
        left.plot(prices, rate, dashes, color=color, label=f"kind {kind + 1}, {brand}")
left.set(xlabel="price, in euros", ylabel="click rate, in %", ylim=(0, 100))
colors = ["#767676", "#D55E00", "#0072B2", "#E69F00"]
x = np.arange(1, n_visits + 1)
for color, (name, clicks) in zip(colors, missed.items(), strict=True):
    total = clicks.cumsum(axis=0)
    mean, error = total.mean(axis=1), 2 * total.std(axis=1) / n**0.5
    right.plot(x, mean, color=color, label=name, linewidth=2)
    right.fill_between(x, mean - error, mean + error, color=color, alpha=0.2, linewidth=0)
right.set(xlabel="visit", ylabel="clicks missed per person (± 2 s.e.)", ylim=(0, None))
for ax in (left, right):
    ax.legend(frameon=False, fontsize=9)
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
