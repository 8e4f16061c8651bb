"""
Know the person: facts on arrival
=================================

A shop knows the age of every visitor on arrival. A regression on the age decides well at the first
view, and never learns more. A mixture prior learns from what the visitor clicks, and knows nothing
at the first view. A prior with *both* begins as the regression does and goes on as the mixture
does. All visitors are simulated; the last picture shows the same shop where age says nothing.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import mixts

ITEMS = ["books", "films", "games", "music", "shoes", "tools"]
TASTES = np.array([[1.2, 0.8, -0.6, -0.6, -0.4, -0.4], [-0.8, -0.6, 0.8, 0.8, 0.2, -0.4]])
BY_AGE = np.array([1.0, 0.3, -1.0, -0.5, 0.1, 0.1])
"""Change of the log odds of a click for each 15 years more."""


def draw_visitors(rng, n, strength):
    """Return the ages of n visitors, and the probabilities that they click on each item."""
    age, kind = rng.integers(18, 80, n), rng.integers(2, size=n)
    tastes = TASTES[kind] + 0.4 * rng.normal(size=(n, len(ITEMS)))
    odds = -1 + tastes + strength * BY_AGE * (age[:, None] - 49) / 15
    return age, 1 / (1 + np.exp(-odds))


def draw_logs(rng, n, n_views, strength):
    """Return a table of the views of n past visitors, who saw random items."""
    age, rates = draw_visitors(rng, n, strength)
    user, item = np.repeat(np.arange(n), n_views), rng.integers(len(ITEMS), size=n * n_views)
    clicked = (rng.random(n * n_views) < rates[user, item]).astype(int)
    items = np.array(ITEMS)[item]
    return pd.DataFrame({"user": user, "age": age[user], "item": items, "clicked": clicked})


# %%
# Learn three priors from the same logs. The *pooled model* has one kind without any difference
# between visitors: it is a logistic regression on the item, the age and their products.


def learn(logs, person):
    """Return the prior of two kinds that the logs teach."""
    columns = {"task": "user", "features": ["item"], "reward": "clicked", "person": person}
    return mixts.fit_logs(logs, columns, n_components=2, held_out=0, seed=1).prior


def without_differences(prior):
    """Return a prior that expects all visitors of an age to be the same."""
    one = prior.collapse()
    mean, offset = one.family.mean, np.zeros((1, one.family.n_features))
    family = one.family.with_moments(mean, offset, "diag")
    return one.replace(family=family)


past = draw_logs(np.random.default_rng(1), 400, 15, strength=1.0)
both = learn(past, ["age"])
mixture = learn(past, [])
pooled = without_differences(both)
print(both)
for term, size in zip(both.features.pooled.parts, both.features.pooled.sizes, strict=True):
    print(f"{term[0]} usually adds or subtracts {size:.2f} to the log odds")

# %%
# One visitor: the same offer at two ages, before anything was clicked.

offer = [{"item": item} for item in ITEMS]
agent = mixts.Greedy(both, seed=1)
for age in (25, 70):
    print(age, ITEMS[agent.act(offer, context={"age": age})])

# %%
# New visitors come, with 20 views each. Every agent meets the same visitors with the same luck. The
# facts of a visitor do not change here, so the rows of all actions are made once.


def play(prior, age, rates, luck, learns):
    """Return the mean probability of a click at each view, and its standard error."""
    context = [{"age": int(one)} if prior.features.facts else {} for one in age]
    rows = np.stack([prior.features.rows(offer, context=known) for known in context])
    kind = mixts.MixIDS if learns else mixts.Greedy
    agent, every = kind(prior, n_tasks=len(age), seed=1), np.arange(len(age))
    earned = np.empty(luck.shape[:2])
    for view in range(len(luck)):
        shown = agent.act(rows)
        earned[view] = rates[every, shown]
        if learns:
            agent.update(rows[every, shown], luck[view, every, shown] < earned[view])
    return earned.mean(axis=1), earned.std(axis=1) / len(age) ** 0.5


def compare(strength, n=400, n_views=20):
    """Return what the pooled model, the mixture and both earn in a shop."""
    past = draw_logs(np.random.default_rng(1), 400, 15, strength)
    both, mixture = learn(past, ["age"]), learn(past, [])
    rng = np.random.default_rng(2)
    age, rates = draw_visitors(rng, n, strength)
    luck = rng.random((n_views, n, len(ITEMS)))
    return {
        "pooled model": play(without_differences(both), age, rates, luck, learns=False),
        "mixture": play(mixture, age, rates, luck, learns=True),
        "both": play(both, age, rates, luck, learns=True),
    }


shops = {"age says much": compare(1.0), "age says nothing": compare(0.0)}
for shop, found in shops.items():
    for name, (rate, error) in found.items():
        first, all_ = rate[0], rate.mean()
        print(f"{shop}: {name:12} {first:.3f} ± {error[0]:.3f} at first, {all_:.3f} in 20 views")

# %%
# Where age says much, both together begin with the regression and end above the mixture. Where it
# says nothing, the ridge leaves it out, and nothing is lost.

colors = {"pooled model": "#767676", "mixture": "#0072B2", "both": "#E69F00"}
fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained", sharey=True)
for ax, (shop, found) in zip(axes, shops.items(), strict=True):
    for name, (rate, error) in found.items():
        views = np.arange(1, len(rate) + 1)
        ax.plot(views, rate, color=colors[name], label=name, linewidth=2)
        ax.fill_between(views, rate - 2 * error, rate + 2 * error, color=colors[name], alpha=0.15)
    ax.set(title=shop, xlabel="views of a visitor", xlim=(1, 20), xticks=[1, 5, 10, 15, 20])
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("probability of a click (± 2 standard errors)")
axes[0].legend(frameon=False, loc="lower right")
plt.show()
