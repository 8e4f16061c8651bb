"""
One visitor, step by step
=========================

A shop has five banners and knows three kinds of visitor. A new visitor arrives, and nobody knows
of which kind. The agent shows a banner, sees a click or none, and updates its belief by Bayes'
rule. The picture shows the belief after every view.
"""

import matplotlib.pyplot as plt
import numpy as np

import mixts

# %%
# A prior has one component for each kind. Here it comes from a table of click rates, one row for
# each kind of visitor. We trust the table as much as 20 showings of every banner.

kinds = ["sporty", "traveller", "homebody"]
banners = ["running shoes", "city breaks", "headphones", "cookbooks", "garden tools"]
rates = np.array(
    [
        [0.50, 0.10, 0.20, 0.05, 0.05],
        [0.10, 0.45, 0.20, 0.10, 0.05],
        [0.05, 0.05, 0.20, 0.30, 0.40],
    ]
)
family = mixts.BernoulliArms(alpha=20 * rates, beta=20 * (1 - rates))
prior = mixts.MixturePrior(family, weights=[0.5, 0.3, 0.2], names=kinds, arm_names=banners)

# %%
# The visitor is a homebody, the rarest kind. ``act`` chooses a banner and ``update`` learns from
# the click. ``agent.belief.weights`` is the probability of each kind.

n_views = 20
agent = mixts.MixTS(prior, seed=7)
visitor = np.random.default_rng(2022)
shown, clicked, weights = [], [], [agent.belief.weights]
for _ in range(n_views):
    banner = agent.act()
    click = visitor.random() < rates[2, banner]
    agent.update(banner, click)
    shown.append(banner)
    clicked.append(click)
    weights.append(agent.belief.weights)

# %%
# How many views does it take? The bestseller, the banner with the highest average click rate, is
# the running shoes. A homebody clicks it only once in 20 views.

weights = np.array(weights)
sure = int(np.argmax(weights[:, 2] > 0.9))
bestseller = int(np.argmax(prior.weights @ rates))
print(f"The agent is 90 % sure of the right kind for the first time after {sure} views.")
print(f"It got {sum(clicked)} clicks in {n_views} views.")
print(f"Always {banners[bestseller]} would get {n_views * rates[2, bestseller]:.0f} on average,")
print(f"and always {banners[4]}, the best banner for a homebody, {n_views * rates[2, 4]:.0f}.")

# %%
# Below the belief, a dot marks each banner shown; a filled dot is a click.

colors = ["#E69F00", "#56B4E9", "#0072B2"]
fig, (top, bottom) = plt.subplots(
    2, figsize=(7, 4.6), sharex=True, height_ratios=[3, 2], layout="constrained"
)
top.stackplot(np.arange(n_views + 1), weights.T, colors=colors, labels=kinds, alpha=0.85)
top.legend(loc="center", reverse=True, title="kind of visitor", framealpha=1)
top.set(ylabel="probability", ylim=(0, 1), xlim=(0, n_views + 0.3))
views, clicked = np.arange(1, n_views + 1), np.array(clicked)
for click, face in ((True, "#0072B2"), (False, "white")):
    now = clicked == click
    bottom.scatter(views[now], np.array(shown)[now], s=36, color=face, edgecolor="#0072B2")
bottom.set_yticks(range(5), labels=banners)
bottom.set(xlabel="view", ylabel="banner shown", ylim=(-0.5, 4.5), xticks=range(0, n_views + 1, 5))
for ax in (top, bottom):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
