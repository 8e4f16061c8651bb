"""Parts that all pages of the dashboard share: templates, assets, links, tiles and notices."""

from __future__ import annotations

import functools
import json
import shlex
from collections.abc import Container
from dataclasses import asdict, dataclass, replace
from importlib import resources
from typing import Any
from urllib.parse import quote, urlencode

from mixts.pages import formats, new_environment
from mixts_serve.dashboard.arms import ARM_ROWS
from mixts_serve.dashboard.charts import colour
from mixts_serve.dashboard.source import PriorFacts, family_words
from mixts_serve.store.views import Unrewarded

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
    _read("mixts_serve.dashboard", "assets", f"{name}.js") for name in ("dashboard", "arms")
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
    environment.filters.update(colour=colour, family=family_words, task_link=task_link)
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


@dataclass(frozen=True)
class Query:
    """The part of the overview's address after the question mark."""

    search: str = ""
    """Part of a task's name."""
    offset: int = 0
    """Number of tasks of the list that are skipped."""
    span: str = ""
    """Name of the period that charts cover; empty for the usual one."""
    arm: str = ""
    """Part of an arm's name."""
    arms: int = ARM_ROWS
    """Number of rows of the table of arms."""

    def checked(self, spans: Container[str], longest: int) -> Query:
        """Return the query with a known span, or none, and searches that are not too long."""
        span = self.span if self.span in spans else ""
        return replace(self, search=self.search[:longest], arm=self.arm[:longest], span=span)

    def kept(self, *names: str) -> list[tuple[str, str | int]]:
        """Return names and values that differ from the defaults, for a form to keep."""
        usual = Query()
        values = [(name, getattr(self, name)) for name in names]
        return [(name, value) for name, value in values if value != getattr(usual, name)]

    def link(self, anchor: str = "", **changes: str | int) -> str:
        """Return the address of the overview with some values changed; defaults are left out."""
        values = asdict(replace(self, **changes))  # type: ignore[arg-type]
        values["offset"] = max(0, values["offset"])
        usual = asdict(Query())
        query = urlencode({key: value for key, value in values.items() if value != usual[key]})
        return f"./?{query}{anchor}" if query else f"./{anchor}"


# -- example commands, for pages that have nothing to show yet ------------------------------------


def decide_command(address: str, task: str, facts: PriorFacts, token: bool) -> str:
    """Return a shell command that requests a decision; any task name is quoted safely."""
    body = json.dumps({"task": task})
    d = facts.n_features
    if d is not None:
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


def weights_in_words(weights: tuple[float, ...], version: int, facts: PriorFacts, n: int) -> str:
    """Return a text with the ``n`` most likely kinds and their probabilities."""
    order = sorted(range(len(weights)), key=lambda s: -weights[s])[:n]
    return ", ".join(
        f"{formats.visible(facts.kind(s, version))} {formats.percent(weights[s])}" for s in order
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
