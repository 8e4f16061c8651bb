"""Route questions to a cheap or a strong language model, and learn which one each subject needs.

A new customer sends questions of one subject. Each question goes to one of two models, and only
this model's answer is seen, right or wrong. A right answer has a value, and each model a price. The
prior is learned from other subjects; the agents maximise value * P(right) - price.

    python examples/route_models.py --out routes.png

The data are 57 subjects of the MMLU test: see examples/data/README.md. The picture needs the extra
`plots`.
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mixts
from mixts.families import BernoulliStatistics

DATA = Path(__file__).parent / "data" / "mmlu_two_models.csv"
MODELS = ("cheap", "strong")
VALUES = (2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0)
"""Values of a right answer, in prices of the strong model."""
CHEAP_PRICE = 0.01
"""Price of the cheap model for a question; that of the strong model is 1."""
N_FOLDS = 8
"""Parts of the subjects: each part is played with a prior learned from all others."""

Array = NDArray[Any]
Scores = dict[str, Array]
"""Mean utility per question, by policy; by value of a right answer and subject."""

FLAT = "TS, flat prior"
ONE_KIND = "TS, one kind"
MIXTURE = "MixTS, mixture"
DIRECTED = "MixIDS, mixture"
GREEDY = "greedy, mixture"
CEILING = "best per subject"
FIXED = "best fixed choice"
POLICIES = (FLAT, ONE_KIND, MIXTURE, DIRECTED, GREEDY)


@dataclass(frozen=True)
class Streams:
    """Questions of customers: whether each model would answer them rightly."""

    subject: Array
    """Subject of each customer, (n,)."""
    right: Array
    """(customers, questions, models)."""


def read_subjects(path: Path = DATA) -> tuple[list[str], Array]:
    """Return the subjects, and the questions that both, one or neither model answers rightly."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    columns = ("both", "only_strong", "only_cheap", "neither")
    counts = np.array([[int(row[name]) for name in columns] for row in rows])
    return [row["subject"] for row in rows], counts


def right_answers(counts: Array) -> Array:
    """Return the number of right answers of the cheap and the strong model, (subjects, 2)."""
    return np.column_stack([counts[:, 0] + counts[:, 2], counts[:, 0] + counts[:, 1]])


def draw_streams(
    counts: Array, n_customers: int, n_questions: int, rng: np.random.Generator
) -> Streams:
    """Draw customers of each subject; a customer never asks the same question twice."""
    # Of both, only the strong, only the cheap, neither: is the cheap, is the strong one right?
    outcomes = np.array([[1, 1], [0, 1], [1, 0], [0, 0]])
    right = []
    for row in counts:
        questions = np.repeat(np.arange(4), row)
        if len(questions) < n_questions:
            raise ValueError(f"a subject has {len(questions)} questions, not {n_questions}")
        for _ in range(n_customers):
            right.append(outcomes[rng.permutation(questions)[:n_questions]])
    return Streams(np.repeat(np.arange(len(counts)), n_customers), np.array(right))


def play(agent: Any, right: Array, value: float, prices: Array) -> tuple[Array, Array]:
    """Return the utility of each customer's questions, and whether the strong model got them."""
    every, taken = np.arange(len(right)), np.empty(right.shape[:2], np.int64)
    for t in range(right.shape[1]):
        taken[:, t] = agent.act(values=[value, value], costs=prices)
        agent.update(taken[:, t], right[every, t, taken[:, t]])
    answered = np.take_along_axis(right, taken[:, :, None], axis=2)[:, :, 0]
    return value * answered - prices[taken], taken


def run(
    counts: Array, values: tuple[float, ...], n_customers: int, n_questions: int, seed: int,
    n_folds: int = N_FOLDS,
) -> tuple[Scores, Array]:  # fmt: skip
    """Play all policies on held-out subjects.

    Returns
    -------
    tuple
        Scores by policy, and the share of questions that the greedy agent sends to the strong
        model, by value and subject.
    """
    rng = np.random.default_rng(seed)
    streams = draw_streams(counts, n_customers, n_questions, rng)
    prices = np.array([CHEAP_PRICE, 1.0])
    right, total = right_answers(counts), counts.sum(axis=1, keepdims=True)
    folds = rng.permutation(len(counts)) % n_folds
    names = ("always cheap", "always strong", FIXED, *POLICIES, CEILING)
    scores: Scores = {name: np.zeros((len(values), len(counts))) for name in names}
    strong = np.zeros((len(values), len(counts)))
    for fold in range(n_folds):
        others, held_out = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        past = BernoulliStatistics(successes=right[others], failures=(total - right)[others])
        prior = mixts.learn_prior(past, "auto", seed=seed, engine=1)
        one = mixts.learn_prior(past, 1, seed=seed, engine=1)
        flat = mixts.MixturePrior(mixts.BernoulliArms([[1, 1]], [[1, 1]]))
        mine = np.isin(streams.subject, held_out)
        asked, subject = streams.right[mine], streams.subject[mine]
        n = len(asked)
        for i, value in enumerate(values):
            agents = {
                FLAT: mixts.MixTS(flat, n_tasks=n, seed=seed),
                ONE_KIND: mixts.MixTS(one, n_tasks=n, seed=seed),
                MIXTURE: mixts.MixTS(prior, n_tasks=n, seed=seed),
                DIRECTED: mixts.MixIDS(prior, n_tasks=n, seed=seed),
                GREEDY: mixts.Greedy(prior, n_tasks=n, seed=seed),
            }
            found = {name: play(agent, asked, value, prices) for name, agent in agents.items()}
            always = value * asked - prices
            past_utility = value * (right / total)[others].mean(axis=0) - prices
            found["always cheap"], found["always strong"] = (
                (always[:, :, k], np.full(always.shape[:2], k)) for k in range(2)
            )
            found[FIXED] = found[("always cheap", "always strong")[int(np.argmax(past_utility))]]
            for name, (utility, taken) in found.items():
                for s in held_out:
                    scores[name][i, s] = utility[subject == s].mean()
                    if name == GREEDY:
                        strong[i, s] = taken[subject == s].mean()
            best = np.argmax(value * right / total - prices, axis=1)
            for s in held_out:
                scores[CEILING][i, s] = always[subject == s][:, :, best[s]].mean()
    return scores, strong


def mean_and_error(numbers: Array) -> tuple[Array, Array]:
    """Return the mean over subjects, and its standard error."""
    return numbers.mean(axis=-1), numbers.std(axis=-1, ddof=1) / np.sqrt(numbers.shape[-1])


def print_tables(
    values: tuple[float, ...], scores: Scores, strong: Array, subjects: list[str]
) -> None:
    """Print utilities, gains over the best fixed choice, and where the ceiling's gain is."""
    names = list(scores)
    print("utility per question (price of the strong model = 1)")
    print(f"{'value':>6}" + "".join(f"{name:>18}" for name in names))
    for i, value in enumerate(values):
        print(f"{value:6g}" + "".join(f"{scores[name][i].mean():18.3f}" for name in names))
    print("\ngain over the best fixed choice, per question, with standard errors over subjects")
    shown = [*POLICIES, CEILING]
    print(f"{'value':>6}" + "".join(f"{name:>18}" for name in shown) + f"{'to the strong':>15}")
    for i, value in enumerate(values):
        cells = ""
        for name in shown:
            mean, error = mean_and_error(scores[name][i] - scores[FIXED][i])
            cells += f"{f'{mean:+.3f} ± {error:.3f}':>18}"
        print(f"{value:6g}{cells}{strong[i].mean():15.0%}")
    print("\nsubject with the largest part of the gain of the best choice per subject")
    for i, value in enumerate(values):
        gain = scores[CEILING][i] - scores[FIXED][i]
        if gain.sum() > 0:
            most = int(np.argmax(gain))
            print(f"{value:6g}  {subjects[most]}, {gain[most] / gain.sum():.0%}")


def draw(values: tuple[float, ...], scores: Scores, path: Path, n_questions: int) -> None:
    """Draw the gain of each policy over the best fixed choice, by the value of a right answer."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise SystemExit("the picture needs matplotlib: pip install 'mixts[plots]'") from None
    figure = Figure(figsize=(9.0, 4.2), layout="constrained")
    ax = figure.add_subplot()
    looks = {
        CEILING: ("best model per subject, in hindsight", "#555555", (0, (4, 2))),
        GREEDY: ("greedy, mixture prior from other subjects", "#0b6e4f", "-"),
        DIRECTED: ("MixIDS, mixture prior", "#8e44ad", "-"),
        MIXTURE: ("Thompson sampling, mixture prior", "#2a6fbb", "-"),
        FLAT: ("Thompson sampling, flat prior", "#c8553d", "-"),
        "always cheap": ("always the cheap model", "#999999", ":"),
        "always strong": ("always the strong model", "#999999", "-."),
    }
    ax.axhline(0, color="black", linewidth=0.8)
    for k, (name, (label, color, dashes)) in enumerate(looks.items()):
        mean, error = mean_and_error(scores[name] - scores[FIXED])
        x = np.array(values)
        if name in POLICIES:
            x = x * (1 + 0.012 * (k - 2.5))  # error bars beside each other
            ax.errorbar(x, mean, error, color=color, linestyle="", elinewidth=1, capsize=2)
        ax.plot(x, mean, label=label, color=color, linestyle=dashes, linewidth=1.8)
    top = float((scores[CEILING] - scores[FIXED]).mean(axis=1).max())
    ax.set_ylim(-1.2 * top, 1.25 * top)
    ax.set_xscale("log")
    ax.set_xticks(values, labels=[f"{value:g}" for value in values])
    ax.minorticks_off()
    ax.set_xlabel("value of a right answer, in prices of the strong model")
    ax.set_ylabel("utility per question,\ngain over the best fixed choice")
    ax.set_title(f"First {n_questions} questions of a new subject", loc="left")
    ax.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, fontsize=9, loc="outside right center")
    figure.savefig(path, dpi=160)
    print(f"\nThe picture is in {path}.")


def main(arguments: list[str] | None = None) -> None:
    """Play, print the tables, and draw the picture."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, help="counts by subject (CSV)")
    parser.add_argument("--customers", type=int, default=20, help="for each subject (default 20)")
    parser.add_argument("--questions", type=int, default=100, help="of a customer (default 100)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="write the picture to this file")
    options = parser.parse_args(arguments)
    subjects, counts = read_subjects(options.data)
    scores, strong = run(counts, VALUES, options.customers, options.questions, options.seed)
    print_tables(VALUES, scores, strong, subjects)
    if options.out is not None:
        draw(VALUES, scores, options.out, options.questions)


if __name__ == "__main__":
    main()
