"""What notebooks show: tables in HTML, escaped, of a sensible size, in no colours of their own."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import mixts
from mixts._html import MOST_ROWS

EVIL = "<script>alert('x')</script>"
VOID = {"br"}


class Outline(HTMLParser):
    """Text and tags; fails if tags do not match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.rows: list[list[str]] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data


def shown(thing: Any) -> Outline:
    html = thing._repr_html_()
    assert "background" not in html
    assert "color:" not in html.replace("border-color:", "")
    assert EVIL not in html
    assert len(html) < 40_000
    return Outline(html)


def arm_prior(n_components: int = 2, n_arms: int = 3, **names: Any) -> mixts.MixturePrior:
    rng = np.random.default_rng(1)
    shape = (n_components, n_arms)
    return mixts.MixturePrior(
        mixts.BernoulliArms(rng.uniform(1, 9, shape), rng.uniform(1, 9, shape)), **names
    )


def test_a_prior_shows_weights_and_means() -> None:
    prior = arm_prior(weights=[0.7, 0.3], names=["one", EVIL], arm_names=["x", EVIL, "z"])
    prior = prior.retire_arms(["z"])
    found = shown(prior)
    assert found.rows[0] == ["component", "weight", "x", EVIL, "z"]
    assert found.rows[1][:2] == ["one", "0.7"]
    mean = prior.family.parameter_means()
    assert found.rows[2] == [EVIL, "0.3", *(f"{value:.3g}" for value in mean[1])]
    assert "retired arms: z" in found.texts
    assert "MixturePrior of BernoulliArms" in found.texts[0]


def test_names_in_notes_are_short_and_visible() -> None:
    names = ["x", "y" * 100_000, "\ud800\N{RIGHT-TO-LEFT OVERRIDE}z"]
    html = arm_prior(arm_names=names).retire_arms(names[1:])._repr_html_()
    assert len(html.encode()) < 5000
    assert f"retired arms: {'y' * 39}…, [U+D800][U+202E]z" in html


def test_many_components_and_arms_are_counted() -> None:
    prior = arm_prior(40, 1000)
    found = shown(prior)
    assert len(found.rows) == MOST_ROWS + 1
    assert "… and 30 more components" in found.texts
    assert "… and 990 more arms" in found.texts
    belief = shown(prior.belief())
    assert len(belief.rows) == 2 * (MOST_ROWS + 1)
    many = shown(prior.belief(5000))
    assert len(many.rows) == MOST_ROWS + 1
    assert "… and 4,990 more tasks" in many.texts
    long = arm_prior(names=["n" * 5000, "b"], arm_names=["a" * 5000, "b", "c"])
    assert len(long._repr_html_()) < 5000


def test_a_belief_shows_what_has_changed() -> None:
    prior = arm_prior(names=["one", "two"], arm_names=["x", "y", "z"])
    belief = prior.belief()
    belief.update([0, 0, 1], [1, 1, 0])
    found = shown(belief)
    assert "Belief about 1 task, 3 observations" in found.texts
    kinds = {row[0]: row[1:] for row in found.rows[1:3]}
    assert kinds["two"] == ["0.5000", f"{belief.weights[1]:.4f}"]
    arms = {row[0]: row[1:] for row in found.rows[4:]}
    deviation = np.sqrt(belief.covariance[2, 2])
    assert arms["z"] == [f"{belief.mean_rewards()[2]:.4g}", f"± {deviation:.2g}"]
    # The best arm comes first.
    assert next(iter(arms)) == "xyz"[int(belief.mean_rewards().argmax())]
    agent = mixts.MixIDS(prior, n_tasks=3, seed=1)
    agent.update([0, 0], [1, 1], tasks=[2, 2])
    found = shown(agent)
    assert "MixIDS by this belief:" in found.texts
    likely = int(agent.belief.weights[2].argmax())
    weight = f"{agent.belief.weights[2, likely]:.4f}"
    assert found.rows[3] == ["2", ["one", "two"][likely], weight, "2"]


def test_the_noise_of_a_task_is_no_arm() -> None:
    family = mixts.StudentArms([[1.0, 2.0]], [[0.1, 0.1]], 0.5, 6.0)
    prior = mixts.MixturePrior(family, arm_names=["x", "y"])
    assert shown(prior).rows[0] == ["component", "weight", "x", "y"]
    assert [row[0] for row in shown(prior.belief()).rows[3:]] == ["y", "x"]


def test_features_and_mdps() -> None:
    features = mixts.Features(["price", EVIL], intercept=True)
    family = mixts.LinearGaussian(np.eye(3)[:2], np.ones(2), 0.5, "spherical")
    prior = mixts.MixturePrior(family, features=features)
    assert shown(prior).rows[0] == ["component", "weight", "intercept", "price", EVIL]
    assert [row[0] for row in shown(prior.belief()).rows[4:]] == ["intercept", "price", EVIL]
    river = mixts.RiverSwim(n_states=4, horizon=5).prior
    assert shown(river).rows[0] == ["component", "weight"]
    assert len(shown(river.belief()).rows) == 1 + river.n_components
    assert shown(river.belief(2)).rows[1] == ["0", "left", "0.5000", "0"]


def test_results_and_sweeps() -> None:
    prior = arm_prior()
    agents = {EVIL: prior, "TS": mixts.MixturePrior(mixts.BernoulliArms.uniform(3))}
    environment = mixts.BanditEnvironment(prior)
    results = mixts.simulate(agents, environment, n_rounds=5, n_runs=3, seed=0, engine=1)
    found = shown(results)
    assert found.rows[0] == ["agent", "regret", "median", "reward/round"]
    regret = results.summary()["TS"].regret
    assert found.rows[2][:2] == ["TS", f"{regret.mean:.2f} ± {regret.error:.2f}"]
    assert found.rows[1][0] == EVIL
    sweep = mixts.Sweep("width", np.arange(1.0, 31), {"TS": np.ones((30, 4))})
    found = shown(sweep)
    assert found.rows[1] == ["1", "1.00 ± 0.00", "1.00"]
    assert "… and 20 more values" in found.texts


def test_the_check_of_a_prior() -> None:
    prior = arm_prior(names=["one", EVIL])
    rng = np.random.default_rng(2)
    _, means = prior.draw(rng, 60)
    past = prior.belief(60)
    for _ in range(10):
        arms = rng.integers(3, size=60)
        past.update(arms, rng.random(60) < means[np.arange(60), arms])
    check = mixts.check_prior(prior, past.statistics, seed=1)
    found = shown(check)
    assert found.tags.count("li") == len(check.findings)
    assert check.findings[0] in found.texts
    assert found.rows[-1][0] == EVIL
    assert found.rows[-1][2] == f"{check.usage.expected[1]:.1f}"


def test_nothing_for_plots_is_imported() -> None:
    code = (
        "import sys, mixts\n"
        "prior = mixts.MixturePrior(mixts.BernoulliArms.uniform(2))\n"
        "assert '<table' in prior._repr_html_() and '<table' in prior.belief()._repr_html_()\n"
        "print([name for name in ('matplotlib', 'jinja2', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("n_tasks", [None, 2])
def test_plain_text_stays(n_tasks: int | None) -> None:
    assert repr(arm_prior().belief(n_tasks)).startswith("Belief(")
    assert repr(arm_prior()).startswith("MixturePrior of BernoulliArms")
