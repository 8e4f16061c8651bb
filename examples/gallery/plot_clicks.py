"""
Clicks: which banner for which visitor?
=======================================

A shop shows one of five banners to each visitor, again and again. The bestseller is the banner
that most visitors like. One bandit for each visitor learns each taste from nothing. ``MixTS`` and
``MixIDS`` learn the kinds of visitor from the past and then recognise the kind of a new visitor.
All visitors are simulated.
"""

import matplotlib.pyplot as plt
import numpy as np

import mixts

rng = np.random.default_rng(1)
rates = np.array(
    [
        [0.50, 0.10, 0.20, 0.05, 0.05],
        [0.10, 0.45, 0.20, 0.10, 0.05],
        [0.05, 0.05, 0.20, 0.30, 0.40],
    ]
)


def draw_visitors(n):
    """Return the click rates of n visitors, which vary around those of their kinds."""
    kinds = rng.choice(3, size=n, p=[0.5, 0.3, 0.2])
    return rng.beta(20 * rates[kinds], 20 * (1 - rates[kinds]))


# %%
# Last month, 300 visitors saw 20 random banners each. ``learn_prior`` finds the kinds in these
# clicks, without being told the kind of any visitor.

past = draw_visitors(300)
shown = rng.integers(5, size=(300, 20))
clicked = rng.random((300, 20)) < np.take_along_axis(past, shown, axis=1)
prior = mixts.learn_prior(list(zip(shown, clicked, strict=True)), n_components=3, seed=1)
print(prior)
print(prior.family.parameter_means().round(2))

# %%
# Now 1,000 new visitors come, with 50 views each. Every agent meets the same visitors with the
# same luck.

n, n_views = 1000, 50
visitors = draw_visitors(n)
luck = rng.random((n_views, n, 5))
every = np.arange(n)


def play(agent):
    """Return the clicks that the agent missed so far, on average: (views, visitors)."""
    missed = np.empty((n_views, n))
    for view in range(n_views):
        banner = agent.act()
        agent.update(banner, luck[view, every, banner] < visitors[every, banner])
        missed[view] = visitors.max(axis=1) - visitors[every, banner]
    return missed.cumsum(axis=0)


no_knowledge = mixts.MixturePrior(mixts.BernoulliArms.uniform(n_arms=5))
bestseller = np.argmax([clicked[shown == banner].mean() for banner in range(5)])
missed = {
    "bestseller": np.outer(
        np.arange(1, n_views + 1), visitors.max(axis=1) - visitors[:, bestseller]
    ),
    "one bandit each": play(mixts.MixTS(no_knowledge, n_tasks=n, seed=1)),
    "MixTS": play(mixts.MixTS(prior, n_tasks=n, seed=1)),
    "MixIDS": play(mixts.MixIDS(prior, n_tasks=n, seed=1)),
}
for name, clicks in missed.items():
    mean, error = clicks[[9, -1]].mean(axis=1), clicks[[9, -1]].std(axis=1) / n**0.5
    print(
        f"{name:16} misses {mean[0]:4.2f} ± {error[0]:.2f} clicks in 10 views, "
        f"{mean[1]:5.2f} ± {error[1]:.2f} in {n_views}"
    )

# %%
# Thompson sampling pays for its exploration: in the first views a bandit for each visitor misses
# more clicks than the bestseller does. Knowing the kinds shortens the exploration. MixIDS, which
# explores only where it pays, is the best of all after a handful of views.

colors = {
    "bestseller": "#767676", "one bandit each": "#D55E00", "MixTS": "#0072B2", "MixIDS": "#E69F00"
}  # fmt: skip
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for name, clicks in missed.items():
    views, mean, error = np.arange(1, n_views + 1), clicks.mean(axis=1), clicks.std(axis=1) / n**0.5
    ax.plot(views, mean, color=colors[name], label=name, linewidth=2)
    ax.fill_between(views, mean - 2 * error, mean + 2 * error, color=colors[name], alpha=0.2)
ax.set(xlabel="views of a visitor", ylabel="clicks missed per visitor (± 2 standard errors)")
ax.set(xlim=(0, n_views), ylim=(0, None))
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
