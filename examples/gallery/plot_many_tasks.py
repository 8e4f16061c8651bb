"""
A hundred thousand tasks at once
================================

One agent holds any number of tasks, and one call decides for all of them. Here 100,000 simulated
visitors see ten banners each. So many tasks also allow a strict test of the beliefs: among all
visitors of whom the agent says "homebody with 70 %", are 70 % homebodies?
"""

import time

import matplotlib.pyplot as plt
import numpy as np

import mixts

n, n_views = 100_000, 10
kinds = ["sporty", "traveller", "homebody"]
rates = np.array(
    [
        [0.50, 0.10, 0.20, 0.05, 0.05],
        [0.10, 0.45, 0.20, 0.10, 0.05],
        [0.05, 0.05, 0.20, 0.30, 0.40],
    ]
)
family = mixts.BernoulliArms(alpha=20 * rates, beta=20 * (1 - rates))
prior = mixts.MixturePrior(family, weights=[0.5, 0.3, 0.2], names=kinds)

# %%
# Draw the visitors from the prior, and let the agent decide and learn. The seconds depend on your
# machine; the first call also loads the compiled loops.

rng = np.random.default_rng(1)
kind, visitors = prior.draw(rng, n)
agent = mixts.MixTS(prior, n_tasks=n, seed=1)
agent.act(tasks=[0])
every, seconds, clicks = np.arange(n), 0.0, np.empty(n_views)
for view in range(n_views):
    luck = rng.random(n)
    started = time.perf_counter()
    banner = agent.act()
    clicked = luck < visitors[every, banner]
    agent.update(banner, clicked)
    seconds += time.perf_counter() - started
    clicks[view] = clicked.mean()
print(f"{n * n_views:,} decisions and updates in {seconds:.2f} s")

# %%
# The bestseller, shown to everybody, is the simplest rival. MixTS starts below it because it
# explores, and overtakes it within a few views. The standard errors are 0.2 % or less.

bestseller = int(np.argmax(prior.weights @ rates))
print(f"bestseller: {visitors[:, bestseller].mean():.1%} clicks")
print("MixTS by view:", " ".join(f"{share:.1%}" for share in clicks))

# %%
# The test of the beliefs: sort all visitors by the stated probability, in 20 classes for each
# kind. If the statements are right, the marks lie on the line, and about 3 of the 60 bars miss it
# by chance. They are right because the belief is exact and the prior is true here. With a prior
# that was learned from few tasks, they would be less so.

weights = agent.belief.weights
fig, ax = plt.subplots(figsize=(7, 4.4), layout="constrained")
ax.plot([0, 100], [0, 100], color="#767676", linewidth=1)
for k, (color, marker) in enumerate(zip(("#E69F00", "#56B4E9", "#0072B2"), "os^", strict=True)):
    group = np.minimum((20 * weights[:, k]).astype(int), 19)
    size = np.bincount(group, minlength=20)
    stated = 100 * np.bincount(group, weights[:, k], minlength=20) / size
    share = np.bincount(group, kind == k, minlength=20) / size
    error = 200 * np.sqrt(share * (1 - share) / size)
    ax.errorbar(stated, 100 * share, error, fmt=marker, color=color, capsize=2, label=kinds[k])
ax.set_xlabel("stated probability of the kind, in %")
ax.set_ylabel("visitors who are of the kind, in %\n(± 2 standard errors)")
ax.set(xlim=(0, 100), ylim=(0, 100), title=f"{n:,} visitors after {n_views} views")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
