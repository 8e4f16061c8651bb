"""The dashboard in a real browser, on the real service: names, refreshing, changes of arms."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mixts_serve import Decider, Decision, DecisionStore
from mixts_serve.dashboard import task_link
from mixts_serve.http.security import Tokens
from mixts_serve.records import Decide, Health, Reward

import mixts
from mixts.pages import formats
from serve.tests.unit.dashboard.sample_dashboards import HOSTILE, arm_prior
from serve.tests.unit.test_client_service import served
from tests.end_to_end.test_report_in_browser import COLOURS, browser, contrast, luminance, resize

__all__ = ["browser"]

WIDE, NARROW = (1400, 900), (390, 844)
ROUND = 2000
"""Milliseconds between two looks."""


class Site:
    """A service with tasks of all names, and windows that look at it."""

    def __init__(self, decider: Decider, address: str, browser: Any) -> None:
        self.decider = decider
        self.address = address
        self.browser = browser
        self.n = 0

    def decide(self, *tasks: str) -> None:
        """Decisions with their rewards."""
        made = self.decider.decide_many([Decide(task) for task in tasks])
        assert all(isinstance(one, Decision) for one in made)
        rewards = [Reward(one.id, float(i % 3 == 0)) for i, one in enumerate(made)]  # type: ignore[union-attr]
        self.decider.reward_many(rewards)
        self.n += len(tasks)

    def window(self, path: str = "/", **settings: Any) -> Any:
        """Open a window whose timers run only on demand, and whose errors are recorded."""
        page = self.browser.new_page(**settings)
        page.set_default_timeout(10_000)
        page.asked, page.complaints = [], []
        page.on("request", lambda request: page.asked.append(request.url))
        for event in ("console", "pageerror", "requestfailed", "dialog"):
            page.on(event, lambda what: page.complaints.append(str(what)))
        if settings.get("java_script_enabled", True):
            page.clock.install(time=0)
            page.clock.pause_at(1000)
        page.goto(self.address + path)
        return page


def wait_until(page: Any, expression: str) -> None:
    """Ask until it is true; Playwright's own way asks by ``eval``, which the page forbids."""
    for _ in range(600):
        if page.evaluate(expression):
            return
        time.sleep(0.05)
    raise AssertionError(f"never came true: {expression}")


def next_look(page: Any) -> None:
    """Let the script look again, and wait until it has."""
    with page.expect_response(lambda answer: answer.request.resource_type == "fetch"):
        page.clock.run_for(ROUND)
    wait_until(page, "!busy")


def in_total(page: Any) -> str:
    """Return the total number of decisions that the first tile shows."""
    return str(page.locator("#tiles small").first.inner_text())


@pytest.fixture(scope="module")
def site(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    names = list(HOSTILE.values())
    plain = arm_prior(5, 4)
    prior = mixts.MixturePrior(plain.family, plain.weights, names[:5], names[:4])
    with (
        DecisionStore(tmp_path_factory.mktemp("site") / "decisions.db") as store,
        Decider(prior, store, seed=1) as decider,
        served(decider) as address,
    ):
        site = Site(decider, address, browser)
        site.decide(*(f"customer-{i}" for i in range(8)), *names)
        yield site


@pytest.fixture(scope="module")
def window(site: Site) -> Any:
    return site.window()


@pytest.fixture(scope="module")
def spare(site: Site) -> Any:
    """A window for tests that go elsewhere in it."""
    return site.window("/assets/dashboard.js")


@pytest.fixture
def page(window: Any) -> Any:
    """The overview in a wide window, with nothing in focus, used or typed."""
    resize(window, WIDE)
    window.mouse.move(0, 0)
    window.evaluate("getSelection().empty(), document.activeElement.blur(), scrollTo(0, 0)")
    window.locator("#search").fill("")
    return window


# -- below a prefix -------------------------------------------------------------------------------


def test_pages_work_below_a_prefix(site: Site, browser: Any) -> None:
    with served(site.decider, prefix="/shop/bandit") as address:
        page = Site(site.decider, address, browser).window("")
        next_look(page)
        assert page.url == f"{address}/"
        page.locator("table.tasks th a").first.click()
        page.wait_for_url(f"{address}/tasks?**")
        page.locator("p.back a").click()
        page.wait_for_url(f"{address}/#tasks")
        assert page.complaints == []
        assert all(url.startswith(address) for url in page.asked)
        page.close()


# -- hostile names --------------------------------------------------------------------------------


def test_hostile_names_are_shown_and_run_nothing(site: Site, page: Any) -> None:
    next_look(page)
    assert page.complaints == []
    assert {url.removeprefix(site.address) for url in page.asked} <= {
        "/", "/assets/dashboard.css", "/assets/dashboard.js",
    }  # fmt: skip
    assert page.title() == "Decisions · mixts"
    shown = page.locator("table.tasks th a").all_inner_texts()
    for name in (HOSTILE["markup"], HOSTILE["rtl"], HOSTILE["newline"], HOSTILE["template"]):
        assert formats.visible(name) in shown
    heights = page.evaluate(
        "[...document.querySelectorAll('table.tasks tbody tr')].map(row => row.clientHeight)"
    )
    assert max(heights) < 70


@pytest.mark.parametrize(
    "kinds",
    [
        ("markup", "dots", "encoded"),
        pytest.param(("rtl", "newline", "slashes", "dot", "entity"), marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_links_lead_to_their_tasks(site: Site, spare: Any, kinds: tuple[str, ...]) -> None:
    spare.goto(site.address)
    for kind in kinds:
        # As the browser resolves it.
        link = task_link(HOSTILE[kind])
        address = spare.evaluate("link => new URL(link, location).href", link)
        assert spare.goto(address).status == 200
        heading = spare.locator("h1 .name").evaluate("e => e.textContent")
        assert heading == formats.visible(HOSTILE[kind])
    assert spare.complaints == []
    assert spare.goto(site.address + "/tasks?name=nobody%3Cb%3E").status == 404
    assert "nobody<b>" in spare.locator("main").inner_text()
    spare.complaints.clear()  # of status 404


def test_a_click_opens_a_task_and_its_page_refreshes(site: Site, spare: Any) -> None:
    site.decide(HOSTILE["dots"])
    page = spare
    page.goto(site.address)
    page.locator("table.tasks th a").first.click()
    page.wait_for_url("**/tasks?name=..")
    assert page.locator("h1 .name").inner_text() == ".."
    before = page.locator("#decisions tbody tr").count()
    site.decide(HOSTILE["dots"])
    next_look(page)
    assert page.locator("#decisions tbody tr").count() == before + 1
    assert page.locator("#history svg[role=img]").count() == 1
    assert page.locator("#actions tbody tr").count() == 4


# -- refreshing in place --------------------------------------------------------------------------


def test_numbers_change_and_nothing_else_does(site: Site, page: Any) -> None:
    page.evaluate("window.same = document.querySelector('#tiles .tile b')")
    page.get_by_text("The same as a table").click()
    page.locator("#search").press_sequentially("cust")
    page.evaluate("document.getElementById('search').setSelectionRange(1, 3)")
    page.evaluate("scrollTo(0, 300)")
    site.decide("customer-1", "customer-2")
    next_look(page)
    assert in_total(page) == f"{site.n} in total"
    kept = page.evaluate("""() => {
        const field = document.activeElement;
        const same = window.same.isConnected;
        const open = document.querySelector('details').open;
        const typed = [field.id, field.value, field.selectionStart, field.selectionEnd];
        return [...typed, scrollY, same, open];
    }""")
    assert kept == ["search", "cust", 1, 3, 300, True, True]
    page.get_by_text("The same as a table").click()


def test_what_is_selected_stays(site: Site, page: Any) -> None:
    page.locator("#tiles").evaluate("part => getSelection().selectAllChildren(part)")
    before = page.evaluate("getSelection().toString()")
    shown = in_total(page)
    site.decide("customer-1")
    next_look(page)
    assert page.evaluate("getSelection().toString()") == before
    assert in_total(page) == shown
    page.evaluate("getSelection().empty()")
    next_look(page)
    assert in_total(page) == f"{site.n} in total"


def test_the_list_does_not_move_under_the_focus_or_the_pointer(site: Site, page: Any) -> None:
    first = page.locator("table.tasks th a").first
    before = first.inner_text()
    other = "customer-4" if before != "customer-4" else "customer-5"
    first.focus()
    site.decide(other)
    next_look(page)
    assert first.inner_text() == before
    assert page.locator(".held").is_visible()
    assert in_total(page) == f"{site.n} in total"
    page.evaluate("document.activeElement.blur()")
    first.hover()
    next_look(page)
    assert first.inner_text() == before
    page.mouse.move(0, 0)
    next_look(page)
    assert first.inner_text() == other
    assert not page.locator(".held").is_visible()


def test_it_can_be_paused(site: Site, page: Any) -> None:
    button, said = page.get_by_role("button", name="Pause"), page.locator("#state")
    assert said.inner_text() == "live"
    button.click()
    assert (button.get_attribute("aria-pressed"), said.inner_text()) == ("true", "paused")
    before, n_asked = in_total(page), len(page.asked)
    site.decide("customer-3")
    page.clock.run_for(5 * ROUND)
    assert (in_total(page), len(page.asked)) == (before, n_asked)
    with page.expect_response("**/"):
        button.click()
    assert (button.get_attribute("aria-pressed"), said.inner_text()) == ("false", "live")
    wait_until(page, "!busy")
    assert in_total(page) == f"{site.n} in total"


def test_a_hidden_page_is_not_updated(page: Any) -> None:
    hide = """hidden => {
        Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
        document.dispatchEvent(new Event('visibilitychange'));
    }"""
    page.evaluate(hide, True)
    n_asked = len(page.asked)
    page.clock.run_for(5 * ROUND)
    assert len(page.asked) == n_asked
    with page.expect_response("**/"):
        page.evaluate(hide, False)
    wait_until(page, "!busy")


def test_a_lost_connection_is_said_once_and_found_again(site: Site, spare: Any) -> None:
    page = spare
    page.goto(site.address)
    said = page.locator("#state")
    page.evaluate("""() => {
        window.changes = 0;
        const count = () => window.changes++;
        new MutationObserver(count).observe(document.getElementById('state'), {childList: true});
    }""")
    next_look(page)
    page.route("**/", lambda route: route.abort())
    for _ in range(3):
        with page.expect_event("requestfailed"):
            page.clock.run_for(ROUND)
        wait_until(page, "document.getElementById('live').dataset.state === 'lost'")
    assert said.inner_text() == "connection lost, trying again"
    badges = page.locator("#facts .badge:visible")
    assert badges.all_inner_texts() == ["state unknown"], "the service may store nothing now"
    page.unroute("**/")
    next_look(page)
    wait_until(page, "document.getElementById('live').dataset.state === 'live'")
    assert said.inner_text() == "live"
    assert badges.all_inner_texts() == ["storing"]
    # Twice in all: screen readers say what changes here, and only that.
    assert page.evaluate("window.changes") == 2
    page.complaints.clear()  # other tests look at them, too


def test_a_store_that_fails_is_announced(
    site: Site, page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    banner = page.locator("#health[role=status] .banner")
    assert banner.count() == 0
    reason = "disk full <script>alert(5)</script>"
    monkeypatch.setattr(site.decider, "health", lambda: Health(False, reason, 3))
    next_look(page)
    assert reason in banner.inner_text()
    monkeypatch.undo()
    next_look(page)
    assert banner.count() == 0
    assert page.complaints == []


def test_the_page_works_without_script(site: Site) -> None:
    page = site.window(java_script_enabled=False)
    assert not page.locator("#pause").is_visible()
    page.locator("#search").fill("alert(1)")
    page.get_by_role("button", name="Search").click()
    assert page.locator("table.tasks th a").all_inner_texts() == [HOSTILE["markup"]]
    page.get_by_role("link", name="1 day").click()
    assert page.locator(".spans [aria-current]").inner_text() == "1 day"
    assert page.locator("#search").input_value() == "alert(1)"
    page.close()


# -- changing arms --------------------------------------------------------------------------------

ADMIN, READ = "admin-token-0123456789", "read-token-0123456789"


@pytest.fixture
def shop(tmp_path: Path, browser: Any) -> Iterator[Any]:
    """A service with tokens; open its overview as the owner of one of them."""
    plain, file = arm_prior(2, 3), tmp_path / "tokens"
    file.write_text(f"{ADMIN} read,admin\n{READ} read\n")
    prior = plain.replace(arm_names=["tea", HOSTILE["rtl"], "jam"])
    with (
        DecisionStore(tmp_path / "decisions.db") as store,
        Decider(prior, store, seed=1) as decider,
        served(decider, tokens=Tokens.read(file)) as address,
    ):
        site = Site(decider, address, browser)

        def opened(token: str) -> tuple[Decider, Any]:
            return decider, site.window(http_credentials={"username": "x", "password": token})

        yield opened


def said(page: Any, words: str) -> str:
    """Wait until the form says something that contains the words, and return it."""
    wait_until(page, f"document.getElementById('arms-said').textContent.includes('{words}')")
    wait_until(page, "!busy")
    return str(page.locator("#arms-said").inner_text())


def arms_shown(page: Any) -> list[str]:
    return list(page.locator("table.arms tbody th").all_inner_texts())


def test_arms_are_added_retired_restored_and_renamed(shop: Any) -> None:
    decider, page = shop(ADMIN)
    answers: list[bool] = []
    page.on("dialog", lambda box: box.accept() if answers.pop() else box.dismiss())
    page.get_by_text("Add, retire or rename arms").click()
    page.get_by_label("New arms").fill("oat milk, plain\n\n honey ")
    page.get_by_role("button", name="Add").click()
    assert said(page, "Added 2 arms") == "Added 2 arms. Version 2 of the prior is active."
    assert decider.prior.arm_names == ("tea", HOSTILE["rtl"], "jam", "oat milk, plain", "honey")
    assert "honey new" in [" ".join(text.split()) for text in arms_shown(page)]
    assert page.get_by_label("New arms").input_value() == ""

    def press(button: str, arm: str) -> None:
        page.locator("#arm-choice").select_option(arm)
        page.get_by_role("button", name=button, exact=True).click()

    answers.append(False)
    press("Retire", "jam")
    assert decider.prior_version == 2, "not without consent"
    answers.append(True)
    press("Retire", HOSTILE["rtl"])
    assert formats.visible(HOSTILE["rtl"]) in said(page, "Retired")
    assert decider.prior.arms.retired.tolist() == [False, True, False, False, False]
    assert any("retired" in text for text in arms_shown(page))
    assert answers == []
    press("Restore", HOSTILE["rtl"])
    said(page, "Restored")
    assert not decider.prior.arms.retired.any()
    press("Restore", "jam")
    said(page, "so already")
    assert decider.prior_version == 2, "it is the same prior as before"
    page.locator("#arm-choice").select_option("jam")
    page.get_by_label("New name").fill("jam (2026)")
    page.get_by_label("New name").press("Enter")
    said(page, "Renamed")
    assert "jam (2026)" in arms_shown(page)
    press("Rename", "tea")
    said(page, "new name first")
    page.get_by_label("New name").fill("honey")
    press("Rename", "tea")
    assert "another arm has this name" in said(page, "Not changed")
    assert decider.prior_version == 4
    page.close()


def test_readers_have_no_form(shop: Any) -> None:
    decider, page = shop(READ)
    assert page.locator("table.arms").count() == 1
    assert page.locator("#change-arms").count() == 0
    sent = """fetch("/arms", {method: "POST", headers: {"Content-Type": "application/json"},
        body: '{"add": ["x"]}'}).then(answer => answer.status)"""
    assert page.evaluate(sent) == 403
    assert decider.prior_version == 1
    page.close()


def test_pages_of_other_sites_change_nothing(shop: Any) -> None:
    decider, page = shop(ADMIN)
    address = page.url
    other = "http://localhost:9/"
    page.route(other, lambda route: route.fulfill(body="<h1>other</h1>", content_type="text/html"))
    page.goto(other)
    send = """([url, kind]) => fetch(url, {method: "POST", mode: kind ? "cors" : "no-cors",
        credentials: "include", headers: kind ? {"Content-Type": kind} : {},
        body: '{"add": ["x"]}'}).then(answer => answer.type, () => "blocked")"""
    # Some browsers send what needs no permission, and hide the response; others do not send it.
    assert page.evaluate(send, [f"{address}arms", None]) in ("opaque", "blocked")
    assert page.evaluate(send, [f"{address}arms", "application/json"]) == "blocked"
    with page.expect_navigation():
        page.evaluate(
            """url => {
            const form = document.createElement("form");
            Object.assign(form, {action: url, method: "post", enctype: "text/plain"});
            const field = document.createElement("input");
            Object.assign(field, {name: '{"add": ["x"], "x": "', value: '"}'});
            form.append(field), document.body.append(form), form.submit();
        }""",
            f"{address}arms",
        )
    assert "only the dashboard itself" in page.locator("body").inner_text()
    assert decider.prior_version == 1
    page.close()


# -- arms by kind, and imagined outcomes ----------------------------------------------------------


@pytest.fixture(scope="module")
def watched(browser: Any, site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A service that takes all arms, after its thread has compared rewards with the prior."""
    with (
        DecisionStore(tmp_path_factory.mktemp("watched") / "decisions.db") as store,
        Decider(site.decider.prior, store, policy="ts", seed=1) as decider,
        served(decider) as address,
    ):
        watched = Site(decider, address, browser)
        watched.decide(*(f"customer-{i}" for i in range(40)))
        for _ in range(600):
            if decider.agreements() is not None:
                break
            time.sleep(0.05)
        yield watched


def test_a_cell_leads_to_the_tasks_that_took_its_arm(watched: Site, spare: Any) -> None:
    page, store, prior = spare, watched.decider.store, watched.decider.prior
    rows = store.tasks(limit=1000)
    names = [formats.visible(name) for name in prior.arm_names or ()]
    kind = Counter(row.latent for row in rows).most_common(1)[0][0]
    alike = {
        row.task: {one.action for one in store.history(row.task)}
        for row in rows
        if row.latent == kind
    }
    page.goto(watched.address)
    table = page.locator("table.items")
    heads = table.locator("thead th").all_inner_texts()
    assert heads[1:] == [formats.visible(name) for name in prior.names or ()]
    shades = table.locator("rect").evaluate_all(
        "all => all.map(e => +e.getAttribute('fill-opacity'))"
    )
    assert max(shades) == 0.45
    arm = names.index(table.locator("tbody th").last.inner_text())
    some = {formats.visible(task) for task, taken in alike.items() if arm in taken}
    assert 0 < len(some) < len(alike)
    table.locator("tbody tr").last.locator("td").nth(kind).locator("a").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/?kind=*")
    assert heads[1 + kind] in page.locator("#tasks").inner_text()
    assert set(page.locator("table.tasks th a").all_inner_texts()) == some
    assert page.complaints == []


def test_what_is_imagined_moves_numbers_until_it_is_forgotten(site: Site, spare: Any) -> None:
    page, before = spare, site.decider.store.totals()
    page.goto(site.address + "/" + task_link("customer-1"))
    panel = page.locator("#imagine")
    assert panel.locator("b").count() == 0
    for n_outcomes in (1, 2):
        action = panel.locator("tbody tr").first
        name = action.locator("th").inner_text()
        action.get_by_role("link", name=f"Imagine 1 for {name}").click()
        page.wait_for_url("**:1#imagine" if n_outcomes == 1 else "**:1,*:1#imagine")
        assert panel.locator("p b").first.inner_text() == ", ".join([f"{name} 1"] * n_outcomes)
        now, then = action.locator("td").first.inner_text().split(" → ")
        assert float(then) > float(now)
    next_look(page)
    assert "Imagined, and not logged" in panel.inner_text()
    panel.get_by_role("link", name="Forget it").click()
    page.wait_for_url("**/tasks?name=customer-1#imagine")
    assert panel.locator("b").count() == 0
    assert site.decider.store.totals() == before
    assert page.complaints == []


def test_no_text_of_a_phone_runs_into_another(watched: Site, spare: Any) -> None:
    """Kinds of any name beside their shares, and imagined outcomes beside their arms."""
    resize(spare, NARROW)
    for path, table in (("/", "table.items"), ("/" + task_link("customer-1"), "table.imagine")):
        spare.goto(watched.address + path)
        wide = spare.locator(table).evaluate(
            "table => table.parentElement.scrollWidth - table.parentElement.clientWidth"
        )
        assert wide == 0, table


# -- how it looks ---------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/" + task_link(HOSTILE["long"])], ids=["overview", "task"])
def test_pages_fit_their_window(site: Site, spare: Any, path: str) -> None:
    spare.goto(site.address + path)
    for size in (NARROW, (320, 600), (760, 900), (1024, 800), WIDE):
        resize(spare, size)
        assert spare.evaluate("document.documentElement.scrollWidth") <= size[0]
        ends = spare.locator(".chart text").evaluate_all(
            "texts => texts.map(text => text.getBoundingClientRect().right)"
        )
        assert max(ends) <= size[0]


def test_settings_are_apart_from_their_names(site: Site, spare: Any) -> None:
    spare.goto(site.address)
    for size in (NARROW, WIDE):
        resize(spare, size)
        gaps = spare.locator(".settings div").evaluate_all("""rows => rows.map((row) => {
            const name = document.createRange();
            name.selectNodeContents(row.querySelector('dt'));
            const setting = row.querySelector('dd').getBoundingClientRect();
            return setting.left - name.getBoundingClientRect().right;
        })""")
        assert len(gaps) > 2
        assert min(gaps) > 8


def test_no_label_of_an_axis_is_cut(site: Site, spare: Any) -> None:
    """With labels of money, which are written into the drawing."""
    spare.goto(site.address + "/" + task_link("customer-1"))
    for size in (NARROW, WIDE):
        resize(spare, size)
        out = spare.locator(".ruler text").evaluate_all("""labels => {
            for (const label of labels) label.textContent = '−1,000';
            return labels.map((label) => {
                const text = label.getBoundingClientRect();
                const frame = label.closest('.scroll').getBoundingClientRect();
                return Math.max(frame.left - text.left, text.right - frame.right);
            });
        }""")
        assert len(out) > 1
        assert max(out) <= 0


def test_no_number_is_cut_on_a_phone(site: Site, spare: Any) -> None:
    """With counts of a large service, which are written into the cells."""
    spare.goto(site.address)
    resize(spare, NARROW)
    cut = spare.evaluate("""() => {
        for (const cell of document.querySelectorAll('td.number')) {
            for (const node of cell.childNodes) {
                const counts = node.nodeType === Node.TEXT_NODE && /[0-9]/.test(node.data);
                if (counts) node.data = '123,456 ';
            }
            if (cell.dataset.label === 'rewards') cell.append(Object.assign(
                document.createElement('small'), {textContent: '98,765 defaults'}));
        }
        const edge = (cell) => cell.closest('.panel').getBoundingClientRect().right;
        return [...document.querySelectorAll('.panel > :not(details) td.number')]
            .filter((cell) => cell.offsetParent)
            .filter((cell) => [...cell.childNodes].some((node) => {
                const range = document.createRange();
                range.selectNodeContents(node);
                return range.getBoundingClientRect().right > edge(cell) - 8;
            }))
            .map((cell) => cell.textContent);
    }""")
    assert cut == []


@pytest.mark.parametrize("path", ["/", "/" + task_link(HOSTILE["rtl"])], ids=["overview", "task"])
def test_every_text_can_be_read(site: Site, spare: Any, path: str) -> None:
    spare.goto(site.address + path)
    for scheme in ("dark", "light"):
        spare.emulate_media(color_scheme=scheme)
        colours = spare.evaluate(COLOURS)
        ratios = {text: contrast(ink, behind) for text, _, ink, behind in colours}
        assert len(ratios) > 50
        assert {text: ratio for text, ratio in ratios.items() if ratio < 4.5} == {}
        paper = spare.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert (luminance(paper) > 0.8) == (scheme == "light")
        assert (luminance(paper) < 0.05) == (scheme == "dark")


def test_the_keyboard_reaches_the_content_first(site: Site, spare: Any) -> None:
    spare.goto(site.address)
    spare.keyboard.press("Tab")
    assert spare.locator(".skip").evaluate("e => e === document.activeElement")
    assert spare.locator(".skip").bounding_box()["x"] >= 0
    spare.keyboard.press("Enter")
    assert spare.evaluate("document.activeElement.id") == "main"
    spare.keyboard.press("Tab")
    outline = spare.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_reduced_motion_stops_all_animation(page: Any) -> None:
    animation = "getComputedStyle(document.querySelector('.live .dot')).animationName"
    for motion, expected in (("reduce", "none"), ("no-preference", "beat")):
        page.emulate_media(reduced_motion=motion)
        assert page.evaluate(animation) == expected


def test_a_phone_shows_the_numbers_first_and_tasks_as_cards(page: Any) -> None:
    resize(page, NARROW)
    tiles = page.locator("#tiles").bounding_box()
    assert tiles["y"] + tiles["height"] < NARROW[1]
    row = page.locator("table.tasks tbody tr").first
    name, kind = row.locator("th").bounding_box(), row.locator("td.kind").bounding_box()
    assert kind["y"] >= name["y"] + name["height"]
