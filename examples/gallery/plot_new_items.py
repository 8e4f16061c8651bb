"""
New items in the catalogue
==========================

Ten items join a catalogue of twenty, and nobody has seen them yet. What should an agent believe
about them? Beta(1, 1), the usual choice, says that an unknown item is clicked by every second
person, and then new items take over. ``add_arms`` says that new items resemble the known ones.
The items and visitors are simulated.
"""

import matplotlib.pyplot as plt
import numpy as np

import mixts

rng = np.random.default_rng(2)
item_rates = 0.05 * np.exp(0.4 * rng.standard_normal(30))  # new items are like the others


def draw_visitors(n):
    """Return the click rates of n visitors for all 30 items."""
    return rng.beta(60 * item_rates, 60 * (1 - item_rates), size=(n, 30))


# %%
# The past: 500 visitors, about five showings of each of the 20 known items.

shown = rng.poisson(5, size=(500, 20))
clicked = rng.binomial(shown, draw_visitors(500)[:, :20])
log = mixts.families.BernoulliStatistics(successes=clicked, failures=shown - clicked)
known = mixts.learn_prior(log, n_components=1, seed=1)

names = [f"new {k + 1}" for k in range(10)]
ones = np.ones((1, 10))
similar = known.replace(arm_names=[f"item {k + 1}" for k in range(20)]).add_arms(names)
priors = {
    "Beta(1, 1)": known.with_arms(mixts.BernoulliArms(ones, ones)),
    "resemble the others": similar,
}
print(f"expected click rate of a new item: {similar.family.parameter_means()[0, -1]:.1%}")

# %%
# 400 new visitors with 40 views each. The simplest rival shows the best known item to everybody.

n, n_views = 400, 40
visitors = draw_visitors(n)
luck = rng.random((n_views, n, 30))
every = np.arange(n)


def play(agent):
    """Return the share of new items in each view, and each visitor's mean click rate."""
    share, earned = np.empty(n_views), np.zeros(n)
    for view in range(n_views):
        item = agent.act()
        agent.update(item, luck[view, every, item] < visitors[every, item])
        share[view] = np.mean(item >= 20)
        earned += visitors[every, item] / n_views
    return share, earned


lines = {}
best = int(np.argmax(clicked.sum(axis=0) / shown.sum(axis=0)))
lines["best known item for all"] = np.zeros(n_views), visitors[:, best]
for policy in (mixts.MixTS, mixts.MixIDS):
    for belief, prior in priors.items():
        lines[f"{policy.__name__}, {belief}"] = play(policy(prior, n_tasks=n, seed=1))
for name, (share, earned) in lines.items():
    print(
        f"{name:28} shows new items in {share.mean():4.0%} of views, "
        f"{100 * earned.mean():.2f} ± {100 * earned.std() / n**0.5:.2f} clicks per 100 views"
    )

# %%
# With Beta(1, 1) new items take all views, and about half of the clicks are lost, with either
# policy. With ``add_arms`` MixTS gives the new items their share of the catalogue, a third, and
# MixIDS leaves them alone. Nobody beats the best known item here: clicks are rare, and 40 views
# are too few to learn a person's taste. But somebody has to try new items, or no later prior will
# know which are good; ``act_with_probabilities(new_share=(0.02, 0.05))`` sets limits for their
# share.

colors = ["#767676", "#D55E00", "#0072B2", "#D55E00", "#0072B2"]
fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
for y, (share, earned) in enumerate(lines.values()):
    mean, error = 100 * earned.mean(), 200 * earned.std() / n**0.5
    ax.barh(y, mean, xerr=error, color=colors[y], height=0.65, capsize=3)
    ax.text(0.15, y, f"{share.mean():.0%} new items", va="center", color="white", weight="bold")
ax.set_yticks(range(len(lines)), labels=list(lines))
ax.invert_yaxis()
ax.set(xlabel="clicks per 100 views (± 2 standard errors)", ylabel="policy, new items")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
