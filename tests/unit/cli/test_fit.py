"""``mixts fit``, on logs of a few tasks."""

from __future__ import annotations

import contextlib
import html
import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mixts_serve import Decider, DecisionStore

import mixts
from mixts.cli import main, parser
from mixts.cli.fit import command_of
from mixts.diagnostics import Earnings, PolicyComparison
from mixts.diagnostics.advice import Advice
from mixts.errors import ParameterError, StatisticsError
from mixts.learning import Learned, Selection, learn
from mixts.logs import fit, read_logs

COLUMNS = ["--task", "user", "--arm", "item", "--reward", "clicked"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Clicks of users of two kinds with four bad rows, and what they spent."""
    folder = tmp_path_factory.mktemp("fit")
    rng = np.random.default_rng(1)
    rates = np.array([[0.8, 0.1, 0.1], [0.1, 0.2, 0.7]])
    items = ["books", "hats", "<b>shoes`"]
    clicks, spent = ["user,item,clicked"], ["user;age;spent"]
    for user in range(40):
        kind = user % 2
        for item in rng.integers(3, size=25):
            clicks.append(f"u{user},{items[item]},{int(rng.random() < rates[kind, item])}")
        for age in rng.standard_normal(8):
            spent.append(f"{user};{age:.3f};{(4 * kind - 2) * age + 0.1 * rng.random():.3f}")
    clicks += ["u1,hats,often", "u1,hats", ",hats,1", "u1,hats,maybe"]
    (folder / "clicks.csv").write_text("\n".join(clicks) + "\n")
    (folder / "spent.csv").write_text("\n".join(spent) + "\n")
    return folder


@pytest.fixture(scope="module")
def fitted(folder: Path) -> tuple[str, Path]:
    """Return the command's output, and the prior's file."""
    out = folder / "my prior.json"
    stream = io.StringIO()
    files = ["--out", str(out), "--statistics", str(folder / "tasks.npz")]
    with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(io.StringIO()):
        logs = str(folder / "clicks.csv")
        assert main(["fit", logs, *COLUMNS, "--components", "2", "--robust", *files]) == 0
    return stream.getvalue(), out


def test_it_says_what_it_did(fitted: tuple[str, Path], folder: Path) -> None:
    printed, out = fitted
    lines = printed.splitlines()
    assert lines[0] == "Use this prior: its checks pass, and in a replay of past tasks it pays."
    first = next(i for i, line in enumerate(lines) if " rows, " in line)
    lines = lines[first:]
    number = "clicks.csv row 1,001 (often), clicks.csv row 1,004 (maybe)"
    ragged = "clicks.csv row 1,002 (2 instead of 3: u1,hats)"
    assert lines[:5] == [
        "1,004 rows, 40 tasks, 3 arms, 4 bad rows",
        f"  2: reward is not a number; first {number}",
        f"  1: a line with another number of columns; {ragged}",
        "  1: no task; clicks.csv row 1,003",
        "bernoulli: every reward is 0 or 1",
    ]
    assert lines[5].startswith("2 kinds of task, learned from 32 tasks; converged after ")
    assert "books has the highest mean (0." in printed
    assert "Other, 1 % of tasks: A broad kind" in printed
    assert "held-out" not in " ".join(lines[8:])  # the page says how it was checked
    page = out.with_suffix(".html")
    words = f"wrote the prior to {out}, and the page about it to {page}; start with"
    assert lines[-2:] == [words, f"  agent = mixts.MixIDS(mixts.MixturePrior.load({str(out)!r}))"]


def test_a_prior_that_should_not_be_used_gets_no_code_to_start_with(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("mixts.cli.fit.advise", lambda *_: Advice("no", ("it is wrong",)))
    out, options = tmp_path / "prior.json", ["--components", "1", "--held-out", "0", "--no-report"]
    logs = str(folder / "clicks.csv")
    assert main(["fit", logs, *COLUMNS, *options, "--out", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Do not use this prior: it is wrong."
    assert lines[-2:] == ["not checked: no tasks were held out", f"wrote the prior to {out}"]


def test_it_says_first_what_policies_earn(fitted: tuple[str, Path]) -> None:
    printed, out = fitted
    lines = printed.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("reward per decision"))
    assert "In a replay of 40 past tasks, each of the first" in " ".join(lines[:first])
    names = [re.split("  +", line)[0] for line in lines[first + 1 : first + 9]]
    assert names == [
        "Your logs", "Bestseller", "Greedy", "Thompson sampling", "IDS", "Gain of IDS", "tasks",
        "decisions",
    ]  # fmt: skip
    assert lines[first + 7].split() == ["tasks", "40", "40"]
    page = html.unescape(out.with_suffix(".html").read_text(encoding="utf-8"))
    assert page.index('id="summary-title"') < page.index("In a replay of 40 past tasks, each")
    assert page.index('id="earnings"') < page.index('id="kinds"')
    assert "agent = mixts.MixIDS(prior)" in page
    # The page has the same numbers.
    for line in lines[first + 1 : first + 7]:
        for number in re.split("  +", line)[1:]:
            assert number.strip() in page


def test_the_prior_is_named_and_ready(fitted: tuple[str, Path], folder: Path) -> None:
    prior = mixts.MixturePrior.load(fitted[1])
    assert prior.names == ("kind 1", "kind 2", "other")
    assert prior.arm_names == ("<b>shoes`", "books", "hats")
    assert prior.weights[2] == pytest.approx(0.01)
    agent = mixts.MixTS(prior, seed=1)
    for _ in range(30):
        arm = agent.act()
        agent.update(arm, int(prior.arm_names[arm] == "books"))
    assert prior.arm_names[agent.act()] == "books"
    saved = mixts.Statistics.load(folder / "tasks.npz")
    columns = {"task": "user", "arm": "item", "reward": "clicked"}
    assert saved == read_logs(folder / "clicks.csv", **columns).statistics


def test_the_page_tells_of_kinds_check_and_bad_rows(fitted: tuple[str, Path]) -> None:
    source = fitted[1].with_suffix(".html").read_text(encoding="utf-8")
    assert "<b>shoes" not in source  # the name of an arm is text
    text = html.unescape(source)
    assert "There are 2 kinds of task" in text
    assert "<b>shoes'" in text
    for words in (
        " of 32 past tasks are of this kind",
        "8 tasks were held out: the prior was not learned from them.",
        "4 bad rows were left out",
        "clicks.csv row 1,001 (often)",
        "weight of the broad component",
        "<span>--robust</span> <span>0.01</span> <span>--seed</span> <span>1</span>",
        "mixts.MixturePrior.load(",
    ):
        assert words in text, words
    assert "How many kinds" not in text  # nothing was compared
    assert "<script" not in source
    assert "http://" not in source.replace("http://www.w3.org", "")


def test_what_exists_is_not_overwritten(
    fitted: tuple[str, Path], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = fitted[1].read_bytes()
    command = ["fit", str(folder / "clicks.csv"), *COLUMNS, "--out", str(fitted[1])]
    assert main(command) == 2
    assert "my prior.json exists: choose another --out, or add --force" in capsys.readouterr().err
    assert main([*command[:-1], str(folder / "other.json"), "--report", str(fitted[1])]) == 2
    assert "choose another --report" in capsys.readouterr().err
    assert fitted[1].read_bytes() == before
    options = ["--components", "1", "--held-out", "0", "--no-report", "--quiet", "--force"]
    assert main([*command, *options]) == 0
    assert capsys.readouterr() == ("", "")
    assert mixts.MixturePrior.load(fitted[1]).n_components == 1
    fitted[1].write_bytes(before)


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (ParameterError("no more room"), 2, "mixts: no more room\n"),
        (OSError("no such disk"), 1, "mixts: no such disk\n"),
        (KeyboardInterrupt(), 130, "mixts: interrupted\n"),
    ],
)
def test_a_prior_outlives_its_comparison(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], error: BaseException, status: int, message: str,
) -> None:  # fmt: skip
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("mixts.cli.fit.compare_policies", fail)
    out, statistics = tmp_path / "prior.json", tmp_path / "tasks.npz"
    command = ["fit", str(folder / "clicks.csv"), *COLUMNS, "--components", "2", "--quiet"]
    assert main([*command, "--out", str(out), "--statistics", str(statistics)]) == status
    said = f"The prior was learned before that, and saved to {out}.\n"
    assert capsys.readouterr() == ("", message + said)
    assert mixts.MixturePrior.load(out).n_components == 2
    assert len(mixts.Statistics.load(statistics)) == 40
    assert not out.with_suffix(".html").exists()


def test_every_step_gives_a_sign(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The steps of a fit of ratings, from reading to the comparison of policies, in their order."""
    rng = np.random.default_rng(1)
    rows = [
        f"{user},{item},{(4 if (user + item) % 2 else 2) + rng.normal():.2f}"
        for user in range(40)
        for item in rng.integers(2, size=10)
    ]
    logs, out = tmp_path / "ratings.csv", tmp_path / "prior.json"
    logs.write_text("user,item,rating\n" + "\n".join(rows) + "\n")
    columns = ["--task", "user", "--arm", "item", "--reward", "rating"]
    command = ["fit", str(logs), *columns, "--out", str(out), "--no-report", "--workers", "1"]
    assert main(command) == 0
    printed = capsys.readouterr()
    # A step of more than ten seconds also says how far it is.
    begun = [line for line in printed.err.splitlines() if not re.search(r": \d+ of \d+$", line)]
    heads = [f"reading {logs}", "comparing 1 kind (of at most 10) on 32 tasks"]
    assert begun[:2] == heads
    n_compared = int(re.findall(r"1 to (\d+) kinds compared", printed.out)[0])
    middle = [f"comparing {n} kinds on 32 tasks" for n in range(2, n_compared + 1)]
    assert begun[2 : n_compared + 1] == middle
    noise = "comparing one noise of all with a noise of each task on 32 tasks"
    assert begun[n_compared + 1] == noise
    learned = [line for line in begun if line.startswith("learning ")]
    assert any(line.endswith("from 26 tasks") for line in learned)
    assert any(line.endswith("from 26 tasks, each with its own noise") for line in learned)
    ends = begun[begun.index("checking the prior on 8 held-out tasks") :]
    assert ends[1] == "comparing policies"
    assert "learning without part 2 of 5 of the tasks" in ends
    assert ends[-1] == "replaying 40 past tasks"
    assert main([*command, "--components", "1", "--force", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("step", ["mixts.logs.fit.check_prior", "mixts.cli.fit.write_fit_page"])
def test_a_prior_outlives_its_check_and_its_page(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], step: str,
) -> None:  # fmt: skip
    """The prior is saved as soon as it is learned; any error after that says where it is."""

    def fail(*_: Any, **__: Any) -> None:
        raise StatisticsError("this step failed")

    monkeypatch.setattr(step, fail)
    out = tmp_path / "prior.json"
    command = ["fit", str(folder / "clicks.csv"), *COLUMNS, "--components", "2", "--quiet"]
    assert main([*command, "--out", str(out)]) == 2
    said = f"The prior was learned before that, and saved to {out}.\n"
    assert capsys.readouterr() == ("", f"mixts: this step failed\n{said}")
    prior = mixts.MixturePrior.load(out)
    assert prior.names == ("kind 1", "kind 2")
    assert prior.descriptions is not None


def test_an_unforeseen_error_also_says_where_the_prior_is(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("mixts.logs.fit.check_prior", fail)
    out = tmp_path / "prior.json"
    command = ["fit", str(folder / "clicks.csv"), *COLUMNS, "--components", "2", "--quiet"]
    with pytest.raises(ZeroDivisionError) as caught:
        main([*command, "--out", str(out)])
    assert any(str(out) in note for note in caught.value.__notes__)
    assert out.exists()


@pytest.mark.parametrize(
    ("options", "begins"),
    [
        (["--noise-std", "2"], "mixts: --noise-std must be a number"),
        ([], "mixts: learning from these logs failed: noise_std must be a number"),
    ],
)
def test_an_error_names_only_options_that_were_given(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], options: list[str], begins: str,
) -> None:  # fmt: skip
    """Learning may fail on a number of its own: nobody gave it, so no option is to blame."""

    def fail(*_: Any, **__: Any) -> None:
        raise ParameterError("noise_std must be a number between 1e-75 and 1e75, got 3.6e-76")

    monkeypatch.setattr("mixts.cli.fit.fit_logs", fail)
    command = ["fit", str(folder / "clicks.csv"), *COLUMNS, "--out", str(tmp_path / "prior.json")]
    assert main([*command, *options]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(begins)
    assert options or "--" not in printed


def test_the_code_says_what_speaks_against_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = 0.01 * np.random.default_rng(1).standard_normal(50)
    rewards = {"bestseller": 0.5 + noise, "greedy": 0.3 - noise, "ids": 0.4 - noise}
    one = Earnings(20, rewards, noise, 3.0, "hats")
    monkeypatch.setattr(
        "mixts.cli.fit.compare_policies", lambda *_, **__: PolicyComparison((one,), {20: 50}, 50)
    )
    out = tmp_path / "prior.json"
    command = ["fit", str(folder / "clicks.csv"), *COLUMNS, "--components", "2", "--quiet"]
    assert main([*command, "--out", str(out)]) == 0
    page = html.unescape(out.with_suffix(".html").read_text(encoding="utf-8"))
    assert "# Do not use this prior: the page begins with the reasons.\nagent = mixts.Mix" in page
    unclear = Earnings(20, {**rewards, "greedy": 0.5 - noise, "ids": 0.5 - noise}, noise, 3.0, "x")
    monkeypatch.setattr(
        "mixts.cli.fit.compare_policies",
        lambda *_, **__: PolicyComparison((unclear,), {20: 50}, 50),
    )
    assert main([*command, "--out", str(out), "--force"]) == 0
    page = html.unescape(out.with_suffix(".html").read_text(encoding="utf-8"))
    assert "this agent did not clearly earn more than the policy that never learns.\nagent" in page


def test_rows_that_a_feature_loses_are_the_first_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the terminal and on the page, before what policies earn."""
    rng = np.random.default_rng(2)
    rows = [f"u{i % 20},{'free' if i % 9 == 0 else i},{rng.normal():.3f}" for i in range(300)]
    (tmp_path / "log.csv").write_text("\n".join(["user,price,spent", *rows]), encoding="utf-8")
    out = tmp_path / "prior.json"
    columns = ["--task", "user", "--features", "price", "--reward", "spent", "--intercept"]
    main(["fit", str(tmp_path / "log.csv"), *columns, "--components", "1", "--out", str(out)])
    said = "34 of 300 rows are left out because feature 'price' is not a number ('free', ...)"
    first = " ".join(capsys.readouterr().out.splitlines()[:2])
    assert first.startswith(f"warning: {said}")
    page = html.unescape(out.with_suffix(".html").read_text(encoding="utf-8"))
    assert page.index(said) < page.index('id="summary-title"')


def _clicks(path: Path, seed: int, users: int, shown: tuple[int, ...] = (0, 1, 2)) -> None:
    """Write clicks of users of two kinds, who see some of three items."""
    rng = np.random.default_rng(seed)
    rates, items = np.array([[0.8, 0.1, 0.3], [0.1, 0.7, 0.3]]), ["books", "hats", "shoes"]
    rows = ["user,item,clicked"]
    for user in range(users):
        for item in rng.choice(shown, size=20):
            clicked = int(rng.random() < rates[user % 2, item])
            rows.append(f"{seed}-{user},{items[item]},{clicked}")
    path.write_text("\n".join(rows), encoding="utf-8")


def test_it_goes_on_from_an_earlier_prior(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Arms without new rows keep their parameters, kinds their names, and both are compared."""
    _clicks(tmp_path / "past.csv", 1, 60)
    _clicks(tmp_path / "new.csv", 2, 100, (0, 1))
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    past = ["fit", str(tmp_path / "past.csv"), *COLUMNS, "--components", "2", "--robust"]
    assert main([*past, "--no-report", "--out", str(first)]) == 0
    old = mixts.MixturePrior.load(first)
    assert old.origin is not None
    assert old.origin.n_tasks == 48  # a fifth was held out
    assert old.origin.passed
    assert old.origin.verdict.startswith("Use this prior")
    new = ["fit", str(tmp_path / "new.csv"), *COLUMNS, "--no-report", "--out", str(second)]
    capsys.readouterr()
    assert main([*new, "--from", str(first)]) == 0
    printed = capsys.readouterr().out
    assert "2 kinds of task, learned from 80 tasks, and from the earlier prior" in printed
    assert "which counts as 48 tasks; converged" in printed
    assert re.search(r"Other, .* of tasks: A broad kind", printed)
    words = " ".join(printed.split())
    assert "It predicts 20 held-out tasks" in words
    assert "the earlier prior (log evidence of a task " in words
    found = mixts.MixturePrior.load(second)
    assert (found.names, found.arm_names) == (old.names, ("books", "hats", "shoes"))
    assert found.origin is not None
    assert found.origin.n_tasks == 128
    means = (one.family.parameter_means() for one in (found, old))
    np.testing.assert_allclose(*(mean[:, 2] for mean in means), rtol=1e-12)
    anew = ["--from", str(first), "--from-tasks", "0", "--components", "1", "--force"]
    assert main([*new, *anew]) == 0
    assert mixts.MixturePrior.load(second).arm_names == ("books", "hats", "shoes")
    options = parser().parse_args([*new, *anew])
    assert f"--from {first} --from-tasks 0.0 --components 1" in command_of(options)


def test_a_refit_that_predicts_worse_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tastes changed for a while, and came back: the latest tasks are like the earliest ones."""
    _clicks(tmp_path / "past.csv", 1, 100)
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    past = ["fit", str(tmp_path / "past.csv"), *COLUMNS, "--components", "2", "--no-report"]
    assert main([*past, "--out", str(first)]) == 0
    rng, rows = np.random.default_rng(3), ["user,item,clicked,day"]
    for user in range(200):
        rates = np.array([[0.8, 0.1, 0.3], [0.1, 0.7, 0.3]])[user % 2]
        for item in rng.choice(3, size=20):
            rate = rates[item] if user >= 160 else 0.95 * (item == 2)
            name = ["books", "hats", "shoes"][item]
            rows.append(f"{user},{name},{int(rng.random() < rate)},{user}")
    (tmp_path / "new.csv").write_text("\n".join(rows), encoding="utf-8")
    new = ["fit", str(tmp_path / "new.csv"), *COLUMNS, "--time", "day", "--from", str(first)]
    capsys.readouterr()
    assert main([*new, "--no-report", "--out", str(second)]) == 0
    last = " ".join(capsys.readouterr().out.split("Do not use this prior")[-1].split())
    assert "it predicts held-out tasks worse than the earlier prior" in last
    assert "keep that one" in last
    found = mixts.MixturePrior.load(second)
    assert found.origin is not None
    assert found.origin.passed is False
    wrong = pytest.raises(ParameterError, match="worse than the earlier prior")
    with DecisionStore(tmp_path / "store.db") as store, wrong:
        Decider(found, store)


def test_the_log_of_a_service_alone_is_warned_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _clicks(tmp_path / "plain.csv", 1, 40)
    header, *rows = (tmp_path / "plain.csv").read_text(encoding="utf-8").splitlines()
    text = [f"{header},pscore,action_dist,prior_version", *(f"{row},1,[],1" for row in rows)]
    (tmp_path / "export.csv").write_text("\n".join(text), encoding="utf-8")
    fast = ["--components", "1", "--held-out", "0", "--no-report", "--force"]
    out = ["--out", str(tmp_path / "prior.json")]
    warned = "warning: These logs are a service's own decisions."
    for logs, expected in (
        (["plain.csv"], False), (["export.csv"], True), (["plain.csv", "export.csv"], False),
    ):  # fmt: skip
        paths = [str(tmp_path / name) for name in logs]
        assert main(["fit", *paths, *COLUMNS, *fast, *out]) == 0
        assert (warned in capsys.readouterr().out) == expected
    start = ["--from", str(tmp_path / "prior.json"), "--out", str(tmp_path / "next.json")]
    export = str(tmp_path / "export.csv")
    assert main(["fit", export, *COLUMNS, *fast[2:], *start]) == 0
    assert warned not in capsys.readouterr().out


def test_what_cannot_be_gone_on_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _clicks(tmp_path / "new.csv", 2, 10)
    out = ["--no-report", "--out", str(tmp_path / "next.json")]
    logs = ["fit", str(tmp_path / "new.csv"), *COLUMNS, *out]
    family = mixts.BernoulliArms(np.ones((1, 3)), np.ones((1, 3)))
    named, unnamed = tmp_path / "named.json", tmp_path / "unnamed.json"
    mixts.MixturePrior(family, arm_names=("hats", "books", "shoes")).save(named)
    mixts.MixturePrior(family).save(unnamed)
    for words, message in (
        (["--arms", "hats,bocks"], "--arms must occur in the logs, and 'bocks' does not: did you "),
        (["--from", str(named), "--arms", "a"], "--arms are those of the earlier prior"),
        (["--from", str(named), "--family", "poisson"], "--family is that of the earlier prior"),
        (["--from", str(named), "--components", "2"], "--components has no meaning where"),
        (["--from", str(named)], "does not say how many tasks it was learned from"),
        (["--from", str(named), "--from-tasks", "-1"], "--from-tasks must be a number"),
        (["--from", str(unnamed)], "--from must be a prior that names its arms"),
        (["--from", str(tmp_path / "none.json")], "No such file"),
        (["--from-tasks", "5"], "--from-tasks needs an earlier prior"),
    ):
        assert main([*logs, *words]) == 2
        assert message in " ".join(capsys.readouterr().err.split())
    assert main([*logs, "--from", str(named), "--from-tasks", "5"]) == 0
    assert mixts.MixturePrior.load(tmp_path / "next.json").arm_names == ("hats", "books", "shoes")


def test_features_of_an_earlier_prior(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"u{i % 6},{i % 5},{['acme', 'bolt', 'core'][i % 3]},{i % 7}" for i in range(60)]
    log, first = tmp_path / "log.csv", tmp_path / "first.json"
    log.write_text("\n".join(["user,price,brand,spent", *rows]), encoding="utf-8")
    columns = ["fit", str(log), "--task", "user", "--reward", "spent"]
    output = ["--no-report", "--held-out", "0", "--out"]
    named = ["--features", "price,brand", "--text", "price", "--top-levels", "2", "--intercept"]
    assert main([*columns, "--components", "1", *named, *output, str(first)]) == 0
    assert "5 features" in capsys.readouterr().out
    features = mixts.MixturePrior.load(first).features
    assert features is not None
    assert features.names[1:] == ("price=1", "price=other", "brand=bolt", "brand=other")
    second = tmp_path / "second.json"
    assert main([*columns, "--from", str(first), *output, str(second)]) == 0
    assert mixts.MixturePrior.load(second).features == features
    wrong = [
        (["--from", str(first), "--features", "price"], "--features are those of the earlier"),
        (["--features", "price", "--text", "brand"], "--text must be among the features"),
    ]
    for options, message in wrong:
        assert main([*columns, *options, *output, str(tmp_path / "third.json")]) != 0
        assert message in capsys.readouterr().err


def test_a_prior_of_clicks_is_replaced_by_one_of_clicks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"u{i % 6},{i % 5 + 0.04},{int(i % 3 == 0)}" for i in range(60)]
    log, second = tmp_path / "log.csv", tmp_path / "second.json"
    log.write_text("\n".join(["user,price,clicked", *rows]), encoding="utf-8")
    columns = ["fit", str(log), "--task", "user", "--reward", "clicked"]
    output = ["--no-report", "--held-out", "0", "--force", "--out"]
    features = mixts.Features(["price"])
    clicks = mixts.LinearBernoulli([[0.0]], [[[1.0]]], decimals=1)
    earlier = {"clicks": clicks, "numbers": mixts.LinearGaussian([[0.0]], [[[1.0]]], 1.0)}
    for name, family in earlier.items():
        mixts.MixturePrior(family, features=features).save(tmp_path / f"{name}.json")
        options = ["--from", str(tmp_path / f"{name}.json"), "--from-tasks", "2"]
        assert main([*columns, *options, *output, str(second)]) == 0
        found = mixts.MixturePrior.load(second).family
        assert type(found) is type(family)
        assert getattr(found, "decimals", 1) == 1
    once = ["--components", "1", "--features", "price", "--round-features", "0"]
    assert main([*columns, *once, *output, str(second)]) == 0
    assert "logistic: every reward is 0 or 1" in capsys.readouterr().out
    found = mixts.MixturePrior.load(second).family
    assert isinstance(found, mixts.LinearBernoulli)
    assert found.decimals == 0
    options = parser().parse_args([*columns, "--features", "price", "--round-features", "2"])
    assert "--round-features 2" in command_of(options)


def test_features_in_place_of_arms(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs, out = str(folder / "spent.csv"), tmp_path / "prior.npz"
    columns = ["--task", "user", "--features", "age", "--reward", "spent", "--delimiter", ";"]
    options = ["--intercept", "--components", "2", "--covariance", "diag", "--held-out", "0"]
    assert main(["fit", logs, *columns, *options, "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "320 rows, 40 tasks, 2 features, no bad rows" in printed
    assert "linear: 320 of 320 rewards are neither 0 nor 1" in printed
    assert "age is higher than usual (" in printed
    assert "age is lower than usual (" in printed
    assert "not checked: no tasks were held out" in printed
    assert "reward per decision" not in printed
    prior = mixts.MixturePrior.load(out)
    assert prior.descriptions is not None
    assert all(f": {text}".replace("`", "") in printed for text in prior.descriptions)
    assert isinstance(prior.family, mixts.LinearGaussian)
    assert prior.family.covariance_type == "diag"
    # The truth is -2 and 2, each of 20 tasks; the hyperprior, worth about one task, pulls to 0.
    assert sorted(prior.family.mean[:, 1].tolist()) == pytest.approx([-2, 2], abs=2 / 20)
    page = html.unescape((tmp_path / "prior.html").read_text(encoding="utf-8"))
    assert "# a description of each choice, with age" in page
    assert "actions = [{'age': 1.0}, ...]" in page
    assert "The base level is " in page
    assert 'id="earnings"' not in page
    assert "agent = mixts.MixIDS(prior)" in page


def test_auto_compares_on_some_tasks_and_learns_from_all(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    calls = []

    compared = Selection((1, 2), np.array([[1.0, 2.0], [0.0, 1.0]]), np.zeros(2), 1, 5)

    def spy(tasks: mixts.Statistics, number: Any, **options: Any) -> Learned:
        """One kind, as if two had been compared."""
        calls.append((len(tasks), number))
        return replace(learn(tasks, 1, **options), selection=compared)

    monkeypatch.setattr(fit, "learn", spy)
    command = ["fit", str(folder / "clicks.csv"), *COLUMNS, "--select-from", "8"]
    assert main([*command, "--held-out", "0", "--out", str(tmp_path / "prior.json")]) == 0
    assert calls == [(8, "auto"), (40, compared)]
    printed = capsys.readouterr().out
    assert (
        "1 kind of task, learned from 40 tasks; 1 to 2 kinds compared on 8 tasks; conv" in printed
    )
    page = html.unescape((tmp_path / "prior.html").read_text(encoding="utf-8"))
    assert "There is one kind of task" in page
    assert "evidence per task by the number of kinds: 1.500 with 1, 0.500 with 2" in page
    assert "1 kind predicts best." in page
    assert "1 (chosen)" in page


def test_warnings_come_first(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is given twice under two names."""
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text((folder / "clicks.csv").read_text())
    command = ["fit", str(tmp_path), *COLUMNS, "--components", "2", "--held-out", "0"]
    assert main([*command, "--out", str(tmp_path / "prior.json")]) == 0
    words = "Every row occurs 2 times, or a multiple of that."
    assert capsys.readouterr().out.startswith(f"warning: {words}")
    page = html.unescape((tmp_path / "prior.html").read_text(encoding="utf-8"))
    assert page.index(f"Warning: {words}") < page.index("In short")


def test_rows_without_a_reward_count(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Clicks are recorded, and nothing where there was no click."""
    text = (folder / "clicks.csv").read_text()
    (tmp_path / "logs.csv").write_text(text.replace(",0\n", ",\n"))
    options = ["--components", "2", "--seed", "1", "--held-out", "0"]
    command = ["fit", str(tmp_path / "logs.csv"), *COLUMNS, *options]
    assert main([*command, "--out", str(tmp_path / "a.json"), "--missing-reward", "0"]) == 0
    n = text.count(",0\n")
    words = f"{n:,} rows had no reward and count as 0 (--missing-reward)"
    assert words in capsys.readouterr().out
    page = html.unescape((tmp_path / "a.html").read_text(encoding="utf-8"))
    assert f"{words}." in page
    whole = ["fit", str(folder / "clicks.csv"), *COLUMNS, *options]
    assert main([*whole, "--out", str(tmp_path / "b.json"), "--no-report"]) == 0
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--held-out", "1"], "--held-out must be a fraction from 0 to below 1"),
        (["--robust", "2"], "--robust must be a weight"),
        (["--components", "0"], "--components must be a whole number, at least 1"),
        (["--select-from", "0"], "--select-from must be"),
        (["--scheduler", "tcp://x:1"], "add --engine dask"),
        (["--workers", "0"], "workers"),
        (["--out", "nowhere/prior.json"], "nowhere is not a folder that can be written to"),
        (["--report", "prior.json"], "must be different files"),
        (["--arm", "thing"], "has no column 'thing'; it has: user, item, clicked"),
        (["--features", "item"], "either arm"),
        (["--arm", "clicked", "--reward", "item"], "none of 1,004 rows"),
        (["--arm", "user"], "the column 'user' is both the task (--task) and the arm (--arm)"),
        (["--family", "bernoulli", "--missing-reward", "2"], "--missing-reward must be a reward"),
    ],
)
def test_mistakes_get_a_message_and_status_2(
    folder: Path, options: list[str], message: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["fit", str(folder / "clicks.csv"), *COLUMNS, *options]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_number_of_components_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["fit", "clicks.csv", *COLUMNS, "--components", "some"])
    assert ended.value.code == 2
    assert "expected auto or a number, got 'some'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["fit", "clicks.csv", *COLUMNS, "--clip=5"])
    said = "expected the smallest and the largest reward, such as 0,500, got '5'"
    assert said in capsys.readouterr().err


def test_the_command_can_be_repeated() -> None:
    words = ["a b.csv", *COLUMNS, "--arms", "x,y", "--allow-bad-rows", "--components", "3"]
    words += ["--missing-reward", "0", "--clip=-5,100"]
    options = parser().parse_args(["fit", *words, "--noise-std", "0.5"])
    again = command_of(options)
    assert again == (
        "mixts fit 'a b.csv' --task user --arm item --reward clicked --missing-reward 0.0 "
        "--clip=-5.0,100.0 --arms x,y --allow-bad-rows --components 3 "
        "--noise-std 0.5 --seed 1 --out prior.json"
    )


# -- actions that are taken at most once ----------------------------------------------------------


def rated(folder: Path, n_rows: int, *, again: bool = False, n_items: int = 30) -> Path:
    """Write ratings of two kinds of people, who rate an item at most once, or perhaps again."""
    rng = np.random.default_rng(5)
    lines = ["user,item,clicked"]
    for user in range(40):
        drawn = rng.choice(n_items, n_rows, replace=again)
        likes = rng.random(n_rows) < np.where((drawn + user) % 2 == 0, 0.8, 0.3)
        lines += [f"u{user},i{item},{int(liked)}" for item, liked in zip(drawn, likes, strict=True)]
    path = folder / f"rated-{n_rows}-{again}-{n_items}.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("n_rows", "again", "n_items", "option", "repeatable"),
    [
        (15, False, 30, [], False),
        (15, True, 30, [], True),
        (15, False, 30, ["--repeatable"], True),
        (15, True, 30, ["--once"], False),
        (3, False, 200, [], True),  # too few rows to tell: chance would not repeat an item either
    ],
)
def test_it_recognises_items_that_are_taken_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], n_rows: int, again: bool, n_items: int,
    option: list[str], repeatable: bool,
) -> None:  # fmt: skip
    out, logs = tmp_path / "prior.json", rated(tmp_path, n_rows, again=again, n_items=n_items)
    words = ["fit", str(logs), *COLUMNS, "--components", "2", "--held-out", "0", "--no-report"]
    assert main([*words, *option, "--out", str(out)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert mixts.MixturePrior.load(out).repeatable is repeatable
    said = (
        "Tasks take an arm at most once: 0 of 600 rows have an arm that their task took before, "
        "where chance would make 143 pairs of such rows."
    )
    assert (said in printed) is (not repeatable and not option)
    assert ("as was given: --once" in printed) is (option == ["--once"])
    words += [*option, "--out", str(out)]
    assert command_of(parser().parse_args(words)).count("".join(option)) >= len(option)


def test_a_prior_that_replaces_another_keeps_what_it_says(tmp_path: Path) -> None:
    """Too few rows to tell: without the earlier prior, items could come again."""
    logs, out = rated(tmp_path, 3, n_items=200), tmp_path / "prior.json"
    words = ["fit", str(logs), *COLUMNS, "--components", "1", "--held-out", "0", "--no-report"]
    assert main([*words, "--once", "--quiet", "--out", str(out)]) == 0
    second = tmp_path / "second.json"
    anew = ["--from", str(out), "--from-tasks", "0"]
    assert main([*words, *anew, "--quiet", "--out", str(second)]) == 0
    assert not mixts.MixturePrior.load(second).repeatable


def test_a_page_and_policies_of_few_items_that_are_taken_once(tmp_path: Path) -> None:
    """A comparison of 20 decisions ends when the eight items do; the page says why."""
    out, logs = tmp_path / "prior.json", rated(tmp_path, 6, n_items=8)
    assert main(["fit", str(logs), *COLUMNS, "--components", "2", "--out", str(out)]) == 0
    page = " ".join(html.unescape(out.with_suffix(".html").read_text(encoding="utf-8")).split())
    assert "Tasks take an arm at most once: 0 of 240 rows" in page
