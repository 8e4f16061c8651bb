"""
Late feedback
=============

Rewards often come late: a purchase is known the next day, when the agent has decided many more
times for the same person. Beliefs do not care about order, so nothing has to be repaired:
``update`` takes rewards whenever they come. But an agent that waits learns later. This example
measures what a delay costs, on simulated visitors.
"""

import matplotlib.pyplot as plt
import numpy as np

import mixts

rates = np.array(
    [
        [0.50, 0.10, 0.20, 0.05, 0.05],
        [0.10, 0.45, 0.20, 0.10, 0.05],
        [0.05, 0.05, 0.20, 0.30, 0.40],
    ]
)
family = mixts.BernoulliArms(alpha=20 * rates, beta=20 * (1 - rates))
prior = mixts.MixturePrior(family, weights=[0.5, 0.3, 0.2])
flat = mixts.MixturePrior(mixts.BernoulliArms.uniform(n_arms=5))

n, n_views = 400, 40
rng = np.random.default_rng(1)
_, visitors = prior.draw(rng, n)
luck = rng.random((n_views, n, 5))
every = np.arange(n)


def play(agent, delay):
    """Return the clicks missed per visitor if a reward comes ``delay`` views after its decision."""
    shown, missed = np.empty((n_views, n), int), np.zeros(n)
    for view in range(n_views):
        if view > delay:
            old = view - delay - 1
            agent.update(shown[old], luck[old, every, shown[old]] < visitors[every, shown[old]])
        shown[view] = agent.act()
        missed += visitors.max(axis=1) - visitors[every, shown[view]]
    return missed


# %%
# A delay of five views means: when the agent decides about view 20, it knows the rewards of the
# views 1 to 14. We try delays up to 20, half of a visit. The bestseller does not learn, so it
# does not care.

delays = [0, 2, 5, 10, 20]
agents = {
    "one bandit each": (mixts.MixTS, flat),
    "MixTS": (mixts.MixTS, prior),
    "MixIDS": (mixts.MixIDS, prior),
}
missed = {
    name: [play(policy(belief, n_tasks=n, seed=1), delay) for delay in delays]
    for name, (policy, belief) in agents.items()
}
bestseller = int(np.argmax(prior.weights @ rates))
fixed = n_views * (visitors.max(axis=1) - visitors[:, bestseller])
print(f"clicks missed in {n_views} views; the bestseller misses {fixed.mean():.1f}, delay or not")
print(f"{'delay':22}" + "".join(f"{delay:7}" for delay in delays))
for name, rows in missed.items():
    print(f"{name:22}" + "".join(f"{row.mean():7.2f}" for row in rows))

# %%
# Agents that know the kinds lose most by a delay, in proportion, because they learn most from the
# first rewards. With a delay of half a visit, MixTS misses more clicks than the bestseller. If an
# agent decides often while rewards are on their way, tell it the decisions that wait:
# ``agent.act(waiting=...)``.

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.axhline(fixed.mean(), color="#767676", linestyle="--", label="bestseller")
looks = (("#D55E00", "o"), ("#0072B2", "s"), ("#E69F00", "^"))
for (color, marker), (name, rows) in zip(looks, missed.items(), strict=True):
    mean, error = np.mean(rows, axis=1), 2 * np.std(rows, axis=1) / n**0.5
    ax.errorbar(delays, mean, error, color=color, marker=marker, label=name, capsize=2, linewidth=2)
ax.set_xlabel("delay of rewards, in views")
ax.set_ylabel(f"clicks missed in {n_views} views\n(± 2 standard errors)")
ax.set(xticks=delays, ylim=(0, None))
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="lower right")
plt.show()
