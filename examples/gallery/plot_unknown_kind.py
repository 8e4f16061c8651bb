"""
A task of no known kind
=======================

A prior that is sure of its kinds is dangerous if a task is of no kind: the agent forces it into
the nearest one and holds on to it. The remedy is one more component, broad and with a small
weight. It costs almost nothing while the kinds are right, and takes over when no kind explains
the rewards. All tasks are simulated.
"""

import matplotlib.pyplot as plt
import numpy as np

import mixts

n_arms, noise = 6, 0.5
means = np.array(
    [
        [1.0, 0.8, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 1.0, 0.8, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0, 1.0, 0.8],
    ]
)
family = mixts.GaussianArms(means, np.full((3, n_arms), 0.1**2), noise)
narrow = mixts.MixturePrior(family, names=["kind A", "kind B", "kind C"])

# %%
# ``robust_prior`` adds the broad component; ``learn_prior(..., robust=0.01)`` does the same for a
# learned prior. The rival without kinds is Thompson sampling with the broad component alone.

robust = mixts.learning.robust_prior(narrow, weight=0.01)
print(robust)
broad = mixts.GaussianArms(robust.family.mean[3:], robust.family.variance[3:], noise)
agents = {
    "kinds only": narrow,
    "kinds + broad component": robust,
    "one bandit each": mixts.MixturePrior(broad),
}

# %%
# Two worlds with 300 tasks each. In the first all tasks are of the known kinds. In the second the
# rewards of arms are arbitrary: standard normal.

anything = mixts.MixturePrior(
    mixts.GaussianArms(np.zeros((1, n_arms)), np.ones((1, n_arms)), noise)
)
worlds = {"all tasks of known kinds": narrow, "all tasks of no known kind": anything}
results = {}
for title, world in worlds.items():
    environment = mixts.BanditEnvironment(world)
    results[title] = mixts.simulate(agents, environment, n_rounds=200, n_runs=300, seed=1, engine=1)
    print(f"\n{title}")
    for name, summary in results[title].summary().items():
        print(f"  {name:24} regret {summary.regret.mean:6.2f} ± {summary.regret.error:.2f}")

# %%
# Left: the broad component costs little. Right: it takes away nearly half of the regret
# of wrong certainty. But it is no cure: with a weight of 1 % it takes a while until the broad
# component is believed, and an agent without kinds does better where kinds do not exist.

colors = ["#D55E00", "#0072B2", "#767676"]
fig, axes = plt.subplots(1, 2, figsize=(7.4, 3.8), layout="constrained")
rounds = np.arange(1, 201)
for ax, (title, played) in zip(axes, results.items(), strict=True):
    for color, name in zip(colors, agents, strict=True):
        mean, error = played.curve(name)
        ax.plot(rounds, mean, color=color, label=name, linewidth=2)
        ax.fill_between(rounds, mean - 2 * error, mean + 2 * error, color=color, alpha=0.2)
    ax.set_title(title, fontsize=11)
    ax.set(xlabel="round", ylim=(0, None), xlim=(0, 200))
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("regret so far (± 2 standard errors)")
axes[1].legend(frameon=False, loc="upper left")
plt.show()
