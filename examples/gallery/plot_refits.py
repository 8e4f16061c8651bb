"""
A year of refits
================

A service decides for ten new customers a day, eight views each. In April an item is added, in July
a new kind of customer comes, all the year tastes drift, and in October the clicks of a week are
lost: they are recorded as 0. On the first day of each month ``mixts_serve.refit`` learns the prior
again, as ``mixts serve --refit 30d`` does. The rivals have the same customers: the first prior
all the year, the bestseller of the last 30 days, and an oracle that knows the true kinds of the
day. The customers are simulated.
"""

import re
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from mixts_serve import Decide, Decider, DecisionStore, Reward, refit
from mixts_serve.store.sqlite import SQLiteBackend

import mixts
from mixts.errors import LogsError

n, n_views, n_days = 10, 8, 360
april, july, lost = 90, 180, range(280, 287)
rng = np.random.default_rng(5)
begin, end = 0.05 + 0.7 * rng.beta(0.4, 0.8, (2, 4, 7))  # three kinds and a new one, seven items
items = [f"item {k}" for k in range(7)]
every = np.arange(n)


def truth(day):
    """Return the kinds of a day: tastes go a third of the way to other tastes in the year."""
    n_kinds = 3 if day < july else 4
    rates = (begin + (end - begin) * day / n_days / 3)[:n_kinds]
    weights = [0.5, 0.3, 0.2] if n_kinds == 3 else [0.4, 0.24, 0.16, 0.2]
    family = mixts.BernoulliArms(15 * rates, 15 * (1 - rates))
    return mixts.MixturePrior(family, weights, arm_names=items)


# %%
# The first prior is learned from 600 customers who saw the first six items at random.

rates = truth(0).draw(rng, 600)[1]
past = mixts.MixturePrior(mixts.BernoulliArms.uniform(6)).belief(n_tasks=600)
for _ in range(n_views):
    shown = rng.integers(6, size=600)
    past.update(shown, rng.random(600) < rates[np.arange(600), shown])
first = mixts.learn_prior(past.statistics, n_components=3, seed=1)
first = first.replace(arm_names=items[:6], origin=first.origin)

# %%
# The service runs in process, on a file with a clock of its own. It refuses to learn from days that
# look wrong, and its message names them: the refit is repeated without them, as a person would.

folder = tempfile.TemporaryDirectory()
seconds = 1_735_689_600  # 2025-01-01
backend = SQLiteBackend(
    Path(folder.name) / "shop.db", synchronous="OFF", clock=lambda: int(1e6 * seconds)
)
store = DecisionStore(backend)
decider = Decider(first, store, seed=1)


def refit_unattended():
    """Refit, without the days that look wrong."""
    try:
        return refit(store)
    except LogsError as error:
        (days,) = re.findall(r"--exclude ([\d.-]+\d)", str(error))
        print(f"the data look wrong: {days} are left out")
        return refit(store, exclude=[days])


def serve(customers, luck, day, records):
    """Decide and reward by the service; return the rates of the items that it showed."""
    earned = np.zeros(n)
    for view in range(n_views):
        made = decider.decide_many([Decide(f"customer {day}/{i}") for i in range(n)])
        shown = [decision.action for decision in made]
        clicks = records * (luck[view] < customers[every, shown])
        decider.reward_many([Reward(d.id, float(c)) for d, c in zip(made, clicks, strict=True)])
        earned += customers[every, shown] / n_views
    return earned


def play(prior, customers, luck, mask, records):
    """Decide and learn with a prior in process; return the rates of the items that it showed."""
    agent, earned = mixts.MixIDS(prior, n_tasks=n, seed=1), np.zeros(n)
    for view in range(n_views):
        shown = agent.act(mask=mask)
        agent.update(shown, records * (luck[view] < customers[every, shown]))
        earned += customers[every, shown] / n_views
    return earned


# %%
# The bestseller is lucky: it knows the click rates of all items among the customers of 30 days,
# also of a new item and in the lost week.

fixed = first.add_arms(items[6:])
earned = {name: [] for name in ("oracle", "refit every month", "never refit", "bestseller")}
recent = [rates.mean(axis=0)]
for day in range(n_days):
    seconds += 86_400
    if day and day % 30 == 0:
        done = refit_unattended()
        print(f"month {day // 30 + 1:2}: {done.status}, {done.kinds}")
    if day == april:
        decider.change_arms(add=items[6:])
    offered = np.arange(7) < (6 if day < april else 7)
    customers = truth(day).draw(rng, n)[1]
    luck, records = rng.random((n_views, n)), day not in lost
    earned["oracle"].append(play(truth(day), customers, luck, offered, records))
    earned["refit every month"].append(serve(customers, luck, day, records))
    earned["never refit"].append(play(fixed, customers, luck, offered, records))
    best = np.argmax(np.where(offered, np.mean(recent[-30:], axis=0), 0))
    earned["bestseller"].append(customers[:, best])
    recent.append(customers.mean(axis=0))
decider.close()
store.close()
folder.cleanup()

# %%
# The prior that is never refitted falls behind when tastes change, an item is added and a new kind
# comes, behind even the bestseller. The refitted one stays near the oracle, also after the lost
# week. It needs some refits to learn about the new item.

by_month = {name: np.reshape(each, (12, -1)) for name, each in earned.items()}
limit = by_month["oracle"].mean(axis=1)
for name, clicks in by_month.items():
    print(f"{name:18} {100 * clicks.mean() / limit.mean():5.1f} % of the oracle's clicks")

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
x = np.arange(1, 13)
colors = ["#767676", "#0072B2", "#D55E00", "#882255"]
for color, (name, clicks) in zip(colors, by_month.items(), strict=True):
    gap = clicks - by_month["oracle"]
    mean = 100 + 100 * gap.mean(axis=1) / limit
    error = 100 * gap.std(axis=1) / gap.shape[1] ** 0.5 / limit
    ax.plot(x, mean, "o-", color=color, label=name, linewidth=2, markersize=4)
    ax.fill_between(x, mean - error, mean + error, color=color, alpha=0.15, linewidth=0)
ax.set(xlabel="month", ylabel="clicks, in % of the oracle's\n(± 1 standard error)", xticks=x)
for at, text in ((3.5, "item"), (6.5, "new kind"), (9.8, "lost week")):
    ax.axvline(at, color="#bbbbbb", linestyle="--")
    ax.text(at + 0.05, ax.get_ylim()[1], text, color="#767676", va="top")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="lower left")
plt.show()
