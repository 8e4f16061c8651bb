"""
Counts: what sells from a new vending machine?
==============================================

A vending machine has one slot at eye level, and a company decides each day which of six products
goes there. The reward is a count: how many of them are sold. ``PoissonArms`` is the family for
counts. The machines stand in schools, offices and gyms, but the company does not record where.
They are simulated.
"""

import matplotlib.pyplot as plt
import numpy as np

import mixts

products = ["chocolate", "crisps", "coffee", "water", "protein bar", "fruit"]
rng = np.random.default_rng(5)
sales = np.array(  # sold in a day: schools, offices, gyms
    [
        [9.0, 8.0, 1.0, 4.0, 1.0, 2.0],
        [5.0, 2.0, 10.0, 4.0, 1.0, 4.0],
        [1.0, 0.5, 2.0, 8.0, 7.0, 3.0],
    ]
)


def draw_machines(n):
    """Return the kinds of n machines, and their mean sales of each product."""
    kind = rng.choice(3, size=n, p=[0.3, 0.5, 0.2])
    return kind, rng.gamma(6.0, sales[kind] / 6.0)  # machines of a kind differ by 40 %


# %%
# The past: 150 machines, two weeks each, random products.

_, past = draw_machines(150)
offered = rng.integers(6, size=(150, 14))
sold = rng.poisson(np.take_along_axis(past, offered, axis=1))
statistics = mixts.families.PoissonStatistics.empty((6,), n_tasks=150)
machines = np.repeat(np.arange(150), 14)
statistics.observe(machines, statistics.observations(offered.ravel(), sold.ravel()))
prior = mixts.learn_prior(statistics, n_components=3, seed=1)
one_kind = mixts.learn_prior(statistics, n_components=1, seed=1)
print("learned mean sales a day")
print(prior.family.parameter_means().round(1))

# %%
# The present: 500 new machines, 30 days. "One kind" is the same Thompson sampling with a prior of
# one component, learned from the same past.

n, days = 500, 30
kind, means = draw_machines(n)
every = np.arange(n)


def play(agent):
    """Return the mean sales of the product that is offered each day."""
    luck = np.random.default_rng(6)
    expected = np.empty((days, n))
    for day in range(days):
        product = agent.act()
        agent.update(product, luck.poisson(means)[every, product])
        expected[day] = means[every, product]
    return expected


best = int(np.argmax([sold[offered == k].mean() for k in range(6)]))
vague = mixts.MixturePrior(mixts.PoissonArms(np.full((1, 6), 1.0), np.full((1, 6), 0.25)))
expected = {
    "MixIDS": play(mixts.MixIDS(prior, n_tasks=n, seed=1)),
    "MixTS": play(mixts.MixTS(prior, n_tasks=n, seed=1)),
    "one kind": play(mixts.MixTS(one_kind, n_tasks=n, seed=1)),
    "one bandit each": play(mixts.MixTS(vague, n_tasks=n, seed=1)),
    f"always {products[best]}": np.tile(means[:, best], (days, 1)),
}
for name, sales in expected.items():
    print(
        f"{name:17} sells {sales[:7].mean():.2f} a day in the first week, {sales.mean():.2f} in "
        f"{days} days (± {sales.mean(axis=0).std() / n**0.5:.2f}, mostly because machines differ)"
    )
paired = (expected["MixIDS"] - expected["one kind"]).mean(axis=0)
print(f"MixIDS minus one kind, by machine: {paired.mean():.2f} ± {paired.std() / n**0.5:.2f}")

# %%
# Sales as a share of what the best product of each machine would sell. The kinds save about a
# week. After a month the agents are close to each other; the fixed choice never learns.

colors = ["#E69F00", "#0072B2", "#009E73", "#D55E00", "#767676"]
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for color, (name, sales) in zip(colors, expected.items(), strict=True):
    share = 100 * sales / means.max(axis=1)
    mean, error = share.mean(axis=1), 2 * share.std(axis=1) / n**0.5
    ax.plot(np.arange(1, days + 1), mean, color=color, label=name, linewidth=2)
    ax.fill_between(np.arange(1, days + 1), mean - error, mean + error, color=color, alpha=0.2)
ax.set(xlabel="day", ylabel="sales, in % of the machine's best product\n(± 2 standard errors)")
ax.set(xlim=(1, days), ylim=(0, 100))
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="lower right")
plt.show()
