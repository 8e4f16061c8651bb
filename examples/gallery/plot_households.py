"""
Offers to households: letters that cost money
=============================================

A grocer may send one of four coupons to a household each month, or no letter at all. A letter
costs postage, and each coupon has its own margin. Some households like one coupon, some another,
and many never use any. The agents maximise money: margin times the chance that the coupon is
used, minus postage. The households are simulated; they are not a real panel.
"""

import matplotlib.pyplot as plt
import numpy as np

import mixts

coupons = ["baby care", "wine", "pet food", "organic", "no letter"]
margins = np.array([7.0, 9.0, 6.0, 5.0, 0.0])
postage = np.array([0.7, 0.7, 0.7, 0.7, 0.0])
kinds = {
    "young families": (0.20, [0.40, 0.08, 0.05, 0.20]),
    "wine lovers": (0.15, [0.01, 0.35, 0.04, 0.12]),
    "pet owners": (0.25, [0.02, 0.06, 0.40, 0.05]),
    "no coupons, please": (0.40, [0.01, 0.02, 0.02, 0.02]),
}
shares = np.array([share for share, _ in kinds.values()])
usage = np.array([rates for _, rates in kinds.values()])
rng = np.random.default_rng(1)


def draw_households(n):
    """Return the kinds of n households, and how often they use each coupon."""
    kind = rng.choice(len(kinds), size=n, p=shares)
    return kind, rng.beta(15 * usage[kind], 15 * (1 - usage[kind]))


# %%
# In the last two years, 600 households got a random coupon every month. We learn four kinds from
# them, and then add the choice of no letter, which costs nothing and earns nothing.

_, past = draw_households(600)
sent = rng.integers(4, size=(600, 24))
used = rng.random((600, 24)) < np.take_along_axis(past, sent, axis=1)
prior = mixts.learn_prior(list(zip(sent, used, strict=True)), n_components=4, seed=1)
print("kind   share  " + "  ".join(f"{name:>9}" for name in coupons[:4]))
for k, row in enumerate(prior.family.parameter_means()):
    print(f"{k + 1:4}  {prior.weights[k]:6.0%}  " + "  ".join(f"{rate:9.0%}" for rate in row))
prior = prior.with_arms(mixts.BernoulliArms(np.ones((4, 1)), np.ones((4, 1))))

# %%
# This year, 800 other households get letters for 12 months. The profit is the one that their true
# rates make us expect. ``horizon=12`` tells the agent that a household gets 12 decisions.

n, months = 800, 12
kind, rates = draw_households(n)
rates = np.column_stack([rates, np.zeros(n)])
profit = margins * rates - postage
luck = rng.random((months, n, 5))
every = np.arange(n)


def play(agent):
    """Return the choice for each household and month."""
    chosen = np.empty((months, n), int)
    for month in range(months):
        chosen[month] = agent.act(values=margins, costs=postage)
        agent.update(chosen[month], luck[month, every, chosen[month]] < rates[every, chosen[month]])
    return chosen


no_knowledge = mixts.MixturePrior(mixts.BernoulliArms.uniform(n_arms=5))
best = int(np.argmax([margins[k] * used[sent == k].mean() - postage[k] for k in range(4)]))
chosen = {
    "no letters": np.full((months, n), 4),
    f"{coupons[best]} for all": np.full((months, n), best),
    "one bandit each": play(mixts.MixTS(no_knowledge, n_tasks=n, seed=1)),
    "MixTS": play(mixts.MixTS(prior, n_tasks=n, seed=1, horizon=months)),
    "MixIDS": play(mixts.MixIDS(prior, n_tasks=n, seed=1, horizon=months)),
    "best for each": np.tile(profit.argmax(axis=1), (months, 1)),
}
print("euros per household and year")
for name, choice in chosen.items():
    year = profit[every, choice].sum(axis=0)
    print(f"{name:16} {year.mean():6.2f} ± {year.std() / n**0.5:.2f}")

# %%
# A dozen letters teach little, so even the best agent gets less than half of what an agent that
# knows every household would get ("best for each"). A bandit for each household earns about as
# much as the same coupon for all. The picture shows what MixIDS sends. Most households that use
# coupons soon get the right one. But it takes about nine letters to be sure that a household uses
# none.

colors = ["#56B4E9", "#882255", "#E69F00", "#009E73", "#e4e4e4"]
fig, axes = plt.subplots(1, 4, figsize=(7.4, 3.6), sharey=True, layout="constrained")
for k, (ax, name) in enumerate(zip(axes, kinds, strict=True)):
    sent_now = chosen["MixIDS"][:, kind == k]
    parts = [100 * (sent_now == coupon).mean(axis=1) for coupon in range(5)]
    ax.stackplot(np.arange(1, months + 1), parts, colors=colors, labels=coupons)
    ax.set_title(name, fontsize=10)
    ax.set(xlim=(1, months), ylim=(0, 100), xticks=[1, 4, 8, 12], xlabel="month")
axes[0].set_ylabel("choices of MixIDS, in %")
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
plt.show()
