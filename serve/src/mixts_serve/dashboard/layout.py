"""Parts that all pages share: templates, links, commands, and what they show of a prior."""

from __future__ import annotations

import functools
import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any
from urllib.parse import quote

from mixts import MixturePrior
from mixts.pages import Effect, descriptions_of, effects_of, formats, new_environment
from mixts_serve.agreement import Agreement
from mixts_serve.rules import Policy
from mixts_serve.store.views import Unrewarded

ARM_ROWS = 10
"""Arms that the table of arms shows at first."""
MOST_KINDS = 8
"""Most kinds that a table shows; if there are more kinds, the last row sums up the rest."""
ADDRESS = "http://127.0.0.1:8321"
"""Default address of the service, for the commands on pages."""
_ICON = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'>"
    "<rect width='16' height='16' rx='3' fill='#0072b2'/>"
    "<path d='M0 9q4-1 8-4t8-2v10a3 3 0 0 1-3 3H3a3 3 0 0 1-3-3z' fill='#e69f00'/>"
    "<path d='M0 12q5 1 9-2t7-2v5a3 3 0 0 1-3 3H3a3 3 0 0 1-3-3z' fill='#009e73'/></svg>"
)
_MOST_FEATURES = 6
"""Most features that an example command writes out; more would make it unreadable."""

Tile = tuple[str, str, str, str]
"""A label, a number, its unit and a note."""


# -- assets ---------------------------------------------------------------------------------------


def _read(package: str, *path: str) -> str:
    return resources.files(package).joinpath(*path).read_text(encoding="utf-8")


STYLE = "\n".join(
    [
        *(_read("mixts.pages", "templates", "style", f"{name}.css")
          for name in ("page", "tables", "kinds", "charts")),
        *(_read("mixts_serve.dashboard", "assets", f"{name}.css")
          for name in ("dashboard", "lists")),
    ]
)  # fmt: skip
SCRIPT = "\n".join(
    _read("mixts_serve.dashboard", "assets", f"{name}.js")
    for name in ("dashboard", "arms", "contest")
)

ASSETS = {
    "dashboard.css": ("text/css; charset=utf-8", STYLE.encode()),
    "dashboard.js": ("text/javascript; charset=utf-8", SCRIPT.encode()),
}
"""Media type and content of the files that pages load, by name."""


# -- templates ------------------------------------------------------------------------------------


def render(template: str, **values: Any) -> str:
    """Render a template of the dashboard."""
    return str(_environment().get_template(f"{template}.html.jinja").render(**values))


@functools.cache
def _environment() -> Any:
    environment = new_environment("mixts_serve.dashboard")
    environment.filters.update(
        family=family_words, task_link=task_link, words=policy_words, short=policy_short
    )
    environment.globals.update(icon="data:image/svg+xml," + quote(_ICON))
    return environment


def missing_page(task: str | None = None) -> str:
    """Render the page for an unknown address or, if ``task`` is given, for an unknown task."""
    words = "There is no page at this address." if task is None else "The store has no task named"
    title = "Not found" if task is None else "No such task"
    return render("notice", title=title, words=words, name=task, reason=None)


def unavailable_page(reason: str) -> str:
    """Render the page for a store that cannot be read."""
    words = "The store cannot be read now. Reload the page to try again."
    return render("notice", title="Nothing to show now", words=words, name=None, reason=reason)


# -- links ----------------------------------------------------------------------------------------


def task_link(name: str) -> str:
    """Return the address of a task's page, relative to any page of the dashboard.

    All links are relative, so that a proxy may serve the pages under a prefix. The name is in the
    query: browsers and proxies change paths such as ``tasks/..`` and ``tasks/a%2Fb``.
    """
    return f"tasks?name={quote(name, safe='', errors='replace')}"


# -- priors ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PriorFacts:
    """The active prior as pages show it; kinds and arms without names have numbers.

    Pages show kinds: what belongs to a kind of several components is summed over them.
    """

    version: int
    family: str
    weights: tuple[float, ...]
    """Weight of each kind."""
    names: tuple[str, ...] | None = None
    """Name of each kind."""
    arm_names: tuple[str, ...] | None = None
    retired: tuple[bool, ...] = ()
    new_arms: tuple[bool, ...] = ()
    """Which arms were added, and no prior has been learned from their data since."""
    n_arms: int | None = None
    n_features: int | None = None
    descriptions: tuple[str, ...] = ()
    """A sentence about each kind; empty for priors that have none."""
    kind_indices: tuple[int, ...] | None = None
    """Kind of each component; None if each component is a kind of its own."""
    effects: tuple[Effect, ...] = ()
    """Effects that are the same for everybody, the largest first."""
    odds: bool = False
    """Whether these change log odds; else they change the reward."""
    is_binary: bool = False
    """Whether every reward is 0 or 1."""
    example: Mapping[str, Any] | None = None
    """Fields of a request for a decision; None where the family says what it needs."""

    @property
    def has_kinds(self) -> bool:
        """Whether there is more than one kind: one kind alone needs no drawing."""
        return len(self.weights) > 1

    def by_kind(self, weights: Sequence[float], version: int | None = None) -> tuple[float, ...]:
        """Sum weights of components by kind; the kinds of another version are not known."""
        if self.kind_indices is None or (version is not None and version != self.version):
            return tuple(weights)
        sums = [0.0] * len(self.weights)
        for kind, weight in zip(self.kind_indices, weights, strict=True):
            sums[kind] += weight
        return tuple(sums)

    def about(self, kind: int | None) -> str:
        """Return the sentence about a kind, or nothing."""
        known = kind is not None and kind < len(self.descriptions)
        return self.descriptions[kind] if known and kind is not None else ""

    def is_retired(self, arm: int) -> bool:
        """Return whether an arm is retired."""
        return arm < len(self.retired) and self.retired[arm]

    @property
    def least_reward(self) -> float:
        """The least reward that the family allows."""
        return 0.0 if self.family in _NOT_NEGATIVE else -math.inf

    def is_new(self, arm: int) -> bool:
        """Return whether an arm is new."""
        return arm < len(self.new_arms) and self.new_arms[arm]

    def kind(self, index: int, version: int | None = None) -> str:
        """Return the name of a kind; a component of another version has its number only."""
        if version is not None and version != self.version:
            return f"component {index + 1} of version {version}"
        if self.names and index < len(self.names):
            return self.names[index]
        return f"kind {index + 1}"

    def action(self, index: int) -> str:
        """Return the name of an arm, or of a row of the actions that were offered."""
        if self.arm_names and index < len(self.arm_names):
            return self.arm_names[index]
        return f"{'action' if self.n_arms is None else 'arm'} {index}"

    def weight(self, kind: int) -> float:
        """Return the prior's weight of a kind."""
        return self.weights[kind] if kind < len(self.weights) else 0.0


def prior_facts(prior: MixturePrior, version: int) -> PriorFacts:
    """Return the facts of a prior that pages show."""
    family = prior.family
    return PriorFacts(
        version=version,
        family=family_words(family.kind),
        weights=tuple(map(float, prior.sum_by_kind(prior.weights))),
        names=prior.names if prior.kinds is None else prior.kind_names,
        arm_names=prior.arm_names,
        retired=tuple(map(bool, prior.arms.retired)),
        new_arms=tuple(map(bool, prior.arms.new)),
        n_arms=family.n_arms,
        n_features=family.n_features,
        descriptions=_descriptions(prior),
        kind_indices=None if prior.kinds is None else prior.kind_indices,
        effects=_effects(prior),
        odds=family.link == "logit",
        is_binary=family.support == "0 or 1",
        example=_example(prior),
    )


def _example(prior: MixturePrior) -> Mapping[str, Any] | None:
    """Return an action that may be offered and facts that may be known, if they have names."""
    space = prior.features
    if space is None or len(space.raw_names) > _MOST_FEATURES:
        return None
    known = {"context": space.example_context()} if space.facts else {}
    return {"actions": [{"id": "a", "features": space.example()}], **known}


@functools.lru_cache(maxsize=8)
def _effects(prior: MixturePrior) -> tuple[Effect, ...]:
    """Describe pooled effects once, with names that cannot reorder the words around them."""
    return tuple(
        Effect(formats.visible(one.name), one.usual, tuple(map(formats.visible, one.strongest)))
        for one in effects_of(prior)
    )


@functools.lru_cache(maxsize=8)
def _descriptions(prior: MixturePrior) -> tuple[str, ...]:
    """Describe the kinds of a prior once, not at every refresh of a page."""
    # Names of arms come from anybody: they must not reorder the sentence around them.
    about = dict(
        zip(prior.kind_indices, map(formats.visible, descriptions_of(prior)), strict=False)
    )
    return tuple(about[kind] for kind in sorted(about))


def family_words(kind: str) -> str:
    """Return the name of a family in words: Bernoulli arms, for "bernoulli-arms"."""
    return kind.replace("-", " ").capitalize()


_NOT_NEGATIVE = frozenset(map(family_words, ("bernoulli-arms", "poisson-arms", "spend-arms")))
"""Families whose rewards are 0 or more."""


@dataclass(frozen=True)
class Kind:
    """A kind of task: its share, beside the one that the prior expects."""

    name: str
    kind: int | None
    """Index of the kind; None for several kinds together."""
    colour: int | None
    share: float
    """Probability of the kind, or share of the tasks of which it is the most probable one."""
    prior: float
    """Probability or share that the prior expects."""
    about: str = ""
    """A sentence about the kind."""
    tasks: int = 0
    """Tasks whose most probable kind is this one."""
    sure: int = 0
    """Those among them that are surely of this kind."""
    agreement: Agreement | None = None
    """What the prior expected of the kind's decisions; None for several kinds together."""

    @property
    def sure_share(self) -> float:
        """Share of all tasks that are surely of this kind."""
        return self.share * self.sure / self.tasks if self.tasks else 0.0


def largest_kinds(kinds: Sequence[Kind]) -> tuple[Kind, ...]:
    """Return all kinds in their order or, of many, the largest and the sum of the others."""
    if len(kinds) <= MOST_KINDS:
        return tuple(kinds)
    order = sorted(kinds, key=lambda kind: (-kind.share, -kind.prior, kind.kind))
    rest = order[MOST_KINDS - 1 :]
    others = Kind(
        f"{len(rest)} others", None, None,
        math.fsum(kind.share for kind in rest), math.fsum(kind.prior for kind in rest),
        tasks=sum(kind.tasks for kind in rest), sure=sum(kind.sure for kind in rest),
    )  # fmt: skip
    return (*order[: MOST_KINDS - 1], others)


# -- policies -------------------------------------------------------------------------------------

_POLICIES = {
    "ids": (
        "Information-directed sampling",
        "weighs the reward that an action is expected to lose against how much there is to learn "
        "from it.",
    ),
    "ts": (
        "Thompson sampling",
        "takes each action with the probability that it is the best one.",
    ),
    "greedy": ("Greedy", "takes the action with the highest expected reward."),
    "ucb": (
        "Bayesian upper confidence bounds",
        "takes the action whose reward is highest at an upper quantile of the belief.",
    ),
}
"""Title of each policy, and how it chooses."""


def policy_words(policy: Policy) -> tuple[str, str]:
    """Return the title of a policy, and how it chooses actions: a sentence without its subject."""
    return _POLICIES.get(policy.name, (policy.name, "is a policy of your own."))


def policy_short(policy: Policy) -> list[str]:
    """Return the policy in a few words, for the line below a title."""
    words = [f"policy {policy.name}"]
    if policy.horizon is not None:
        words.append(f"horizon {formats.count(policy.horizon)}")
    if policy.explore:
        words.append(f"{formats.percent(policy.explore)} drawn evenly")
    return words


# -- example commands, for pages that have nothing to show yet ------------------------------------


def decide_command(address: str, task: str, facts: PriorFacts, token: bool) -> str:
    """Return a shell command that requests a decision; any task name is quoted safely."""
    body = json.dumps({"task": task, **(facts.example or {})})
    d = facts.n_features
    if d is not None and facts.example is None:
        actions = f"[[... {d} numbers ...], ...]"
        if d <= _MOST_FEATURES:
            unit_vectors = [[int(i == k) for i in range(d)] for k in range(min(d, 2))]
            actions = json.dumps(unit_vectors)
        body = f'{body[:-1]}, "actions": {actions}}}'
    return _curl(address, "decide", body, token)


def reward_command(address: str, decision: str | None, token: bool) -> str:
    """Return a shell command that sends the reward of a decision."""
    return _curl(
        address, "reward", json.dumps({"id": decision or "DECISION_ID", "value": 1}), token
    )


def _curl(address: str, verb: str, body: str, token: bool) -> str:
    lines = ["curl " + shlex.quote(f"{address.rstrip('/')}/v1/{verb}")]
    if token:
        lines.append('-H "Authorization: Bearer $TOKEN"')
    lines.append("-H 'Content-Type: application/json'")
    # json.dumps escapes everything but ASCII, and the shell does not expand quoted text.
    lines.append(f"-d {shlex.quote(body)}")
    return " \\\n  ".join(lines)


# -- words ----------------------------------------------------------------------------------------


def weights_in_words(weights: tuple[float, ...], facts: PriorFacts, n: int) -> str:
    """Return a text with the ``n`` most likely kinds and their probabilities."""
    order = sorted(range(len(weights)), key=lambda s: -weights[s])[:n]
    return ", ".join(
        f"{formats.visible(facts.kind(s))} {formats.percent(weights[s])}" for s in order
    )


def unrewarded_words(counts: Unrewarded) -> str:
    """Return how many decisions have no reward, by reason."""
    parts = [
        f"{formats.count(n)} {word}"
        for n, word in (
            (counts.waiting + counts.due, "waiting"),
            (counts.given_up, "given up after the window"),
            (counts.deferred, "never activated"),
        )
        if n
    ]
    return ", ".join(parts) or "every decision has a reward"
