"""Pages of all sorts, read as a browser reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from mixts_serve.dashboard import (
    OverviewQuery,
    missing_page,
    overview_page,
    task_page,
    unavailable_page,
)
from mixts_serve.dashboard.layout import ADDRESS
from mixts_serve.lift import Sums, compare
from mixts_serve.worth import Worth

from serve.tests.unit.dashboard.sample_dashboards import (
    HOSTILE,
    NOW,
    FakeDecider,
    FakeStore,
    arm_prior,
    linear_prior,
    typical,
)

VOID = {"meta", "link", "input"}


class Page(HTMLParser):
    """A page as a browser sees it: tags with attributes, and text by the tags around it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs)
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.open[-1], " ".join(data.split())))

    @property
    def text(self) -> str:
        return " ".join(text for _, text in self.texts)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def overview(
    decider: FakeDecider, store: FakeStore, address: str = ADDRESS, token: bool = False,
    **asked: str | int,
) -> Page:  # fmt: skip
    query = OverviewQuery.of({name: str(value) for name, value in asked.items()})
    return Page(overview_page(decider, store, query, now=NOW, address=address, token=token))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def service() -> tuple[FakeDecider, FakeStore]:
    return typical(60)


def every_page() -> Iterator[tuple[str, str]]:
    """Pages of all sorts, by name."""
    hostile = typical(len(HOSTILE), names=list(HOSTILE.values()), longest=20)
    lift = compare(
        Sums(200, 400, 90, 90, 80, 40, 80, 40), Sums(900, 1800, 540, 540, 360, 9, 360, 9)
    )
    metrics = dict.fromkeys(HOSTILE.values(), lift)
    hostile[0].lift = Worth("bestseller", 0.1, NOW, NOW, lift, metrics, ("the share is wrong",))
    crowded = typical(3, prior=arm_prior(100, 1000, named=False))
    linear = typical(3, prior=linear_prior())
    named = replace_names(*hostile)
    empty = FakeDecider(arm_prior(), FakeStore())
    failing = typical(3)
    failing[0].writable, failing[0].reason = False, "disk full </div><script>"
    yield "empty", overview_page(empty, empty.store, now=NOW)
    yield "search", overview_page(*hostile, OverviewQuery("<x '\"&\u202e"), now=NOW)
    yield "missing", missing_page(HOSTILE["markup"])
    yield "nowhere", missing_page()
    yield "unavailable", unavailable_page("the database is away <script>")
    services = [("hostile", hostile), ("crowded", crowded), ("linear", linear), ("named", named)]
    for name, (decider, store) in [*services, ("failing", failing)]:
        yield f"{name} list", overview_page(decider, store, now=NOW, address="http://<a>")
        for row in store.rows if name == "hostile" else store.rows[:1]:
            yield f"{name} {row.task}", task_page(decider, store, row.task, now=NOW)


def replace_names(decider: FakeDecider, store: FakeStore) -> tuple[FakeDecider, FakeStore]:
    """The same service with hostile names of kinds and arms too."""
    names = list(HOSTILE.values())
    family = decider.prior.family
    prior = type(decider.prior)(family, decider.prior.weights, names[:5], names[:10])
    return replace(decider, prior=prior), store


@pytest.fixture(scope="module")
def pages() -> dict[str, Page]:
    return {name: Page(html) for name, html in every_page()}
