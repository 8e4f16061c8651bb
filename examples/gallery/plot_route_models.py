"""
Route questions to a cheap or a strong language model
=====================================================

A customer asks questions of one subject. A strong model answers more of them rightly, and costs a
hundred times as much as a cheap one. For some subjects the cheap model is good enough, and only
trying tells for which. The data are real: which of 57 subjects' MMLU questions gpt-4-1106-preview
and Mixtral-8x7B answered rightly, as published by RouteLLM (``examples/data/README.md``).
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import mixts

# Columns: questions that both models, only the strong, only the cheap or no model answers rightly.
here = Path(globals().get("__file__", "plot_route_models.py")).resolve().parent
table = here.parent / "data" / "mmlu_two_models.csv"
counts = np.loadtxt(table, delimiter=",", skiprows=1, usecols=(1, 2, 3, 4), dtype=int)
right = np.column_stack([counts[:, 0] + counts[:, 2], counts[:, 0] + counts[:, 1]])
wrong = counts.sum(axis=1, keepdims=True) - right
rates = right / (right + wrong)
print(f"right answers: {rates[:, 0].mean():.0%} cheap, {rates[:, 1].mean():.0%} strong")

# %%
# A customer asks 60 questions of one subject. Money is in prices of a strong answer, and
# everything depends on what a right answer is worth, so we try five values. The agents maximise
# value times P(right) minus price.

rng = np.random.default_rng(1)
n_questions, prices, values = 60, np.array([0.01, 1.0]), [2, 4, 8, 16, 32]
outcomes = np.array([[1, 1], [0, 1], [1, 0], [0, 0]])  # of the columns: cheap right, strong right


def ask(subject):
    """Return which models answer a customer's questions rightly; no question comes twice."""
    return outcomes[rng.permutation(np.repeat(range(4), counts[subject]))[:n_questions]]


def play(agent, asked, utility):
    """Return the expected utility per question, by customer."""
    every, earned = np.arange(len(asked)), np.zeros(len(asked))
    for t in range(n_questions):
        model = agent.act(values=[value, value], costs=prices)
        agent.update(model, asked[every, t, model])
        earned += utility[every, model] / n_questions
    return earned


# %%
# The subjects have three parts. The customers of one part, ten for each subject, are played with
# a prior that is learned from the other parts. The rival is one model for all, the one that was
# better in the other parts.

flat = mixts.MixturePrior(mixts.BernoulliArms.uniform(n_arms=2))
part = rng.permutation(57) % 3
gains = {}  # by policy: (value, subject)
for fold in range(3):
    past, new = np.flatnonzero(part != fold), np.flatnonzero(part == fold)
    statistics = mixts.families.BernoulliStatistics(successes=right[past], failures=wrong[past])
    prior = mixts.learn_prior(statistics, n_components=4, seed=1)
    customers = np.repeat(new, 10)
    asked, n = np.stack([ask(subject) for subject in customers]), len(customers)
    for i, value in enumerate(values):
        utility = value * rates[customers] - prices
        rival = utility[:, np.argmax((value * rates[past] - prices).mean(axis=0))]
        earned = {
            "best model per subject": utility.max(axis=1),
            "MixIDS": play(mixts.MixIDS(prior, n_tasks=n, seed=1), asked, utility),
            "MixTS": play(mixts.MixTS(prior, n_tasks=n, seed=1), asked, utility),
            "one bandit each": play(mixts.MixTS(flat, n_tasks=n, seed=1), asked, utility),
        }
        for name, one in earned.items():
            gain = gains.setdefault(name, np.empty((len(values), 57)))
            gain[i, new] = (one - rival).reshape(-1, 10).mean(axis=1)
print(f"{'value of a right answer':24}" + "".join(f"{value:8}" for value in values))
for name, gain in gains.items():
    print(f"{name:24}" + "".join(f"{mean:+8.3f}" for mean in gain.mean(axis=1)))

# %%
# A fixed choice is hard to beat: even the best model for each subject, known only in hindsight,
# adds little. MixIDS is ahead of the fixed choice from a value of 8 on, but by no more than about
# one standard error. It loses almost nothing elsewhere, and nobody has to tell it which model
# pays at which value. Thompson sampling keeps trying the worse model, and loses where answers are
# worth much. We chose four components after a first try with two, with which MixIDS earned less
# than the fixed choice at high values, so its small lead is no proof.

fig, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
colors = ["#000000", "#E69F00", "#0072B2", "#D55E00"]
for k, (color, (name, gain)) in enumerate(zip(colors, gains.items(), strict=True)):
    mean, error = gain.mean(axis=1), gain.std(axis=1, ddof=1) / 57**0.5
    x = np.array(values) * 1.02 ** (k - 2)  # bars beside each other
    ax.errorbar(x, mean, error, fmt=":" if k == 0 else "-", color=color, label=name, linewidth=2)
ax.axhline(0, color="#767676", linewidth=1)
ax.set_xscale("log")
ax.set_xticks(values, labels=values)
ax.minorticks_off()
ax.set_xlabel("value of a right answer, in prices of a strong answer")
ax.set_ylabel("utility per question, gain over one\nmodel for all (± 1 standard error)")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
