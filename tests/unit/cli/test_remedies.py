"""Every remedy that ``mixts fit`` prints can be applied, and is then not proposed again."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixts
from mixts.cli import main
from mixts.diagnostics import advice
from mixts.errors import ParameterError
from mixts.families import BernoulliStatistics
from mixts.learning import check, findings, measures
from mixts.logs import (
    bad_rows,
    fit,
    fitted,
    held_out,
    levels,
    pieces,
    read,
    review,
    row_faults,
    rows,
    schema,
    tally,
)

SPEAKERS = (
    advice, bad_rows, check, findings, fit, fitted, held_out, levels, measures, pieces, read,
    review, row_faults, rows, schema, tally,
)  # fmt: skip
"""Modules that propose options."""

QUESTIONS = {"--task", "--arm", "--reward", "--score"}
"""Options that messages only name: is that the right column?"""

OPTION = re.compile(r"--[a-z]+(?:-[a-z]+)*")


# -- remedies about logs ---------------------------------------------------------------------------


Rng = np.random.Generator
Line = Callable[[Rng, int], str]


@dataclass(frozen=True)
class Case:
    """Logs with a fault, the command that finds it, and what the message says to change."""

    line: Line
    """Row i, of ``header``."""
    command: str
    said: str
    """The remedy as it is printed; a regular expression."""
    add: str = ""
    """Words to add, with {1} for groups of ``said``."""
    drop: str = ""
    """Words to take out."""
    header: str = "user,item,r"
    n_rows: int = 240
    files: dict[str, Callable[[Path], None]] = field(default_factory=dict)

    @property
    def options(self) -> set[str]:
        return set(OPTION.findall(f"{self.add} {self.drop} {self.said}"))


def earlier_prior(path: Path) -> None:
    size = mixts.LevelFeature("size", ("s", "m"), reference="s")
    features = mixts.Features(["price", size])
    family = mixts.LinearGaussian.standard(2, 1.0)
    mixts.MixturePrior(family, features=features).save(path)


def normal(rng: Rng, i: int) -> str:
    return f"u{i % 12},{'abc'[rng.integers(3)]},{rng.normal():.3f}"


def with_huge(line: Line, size: float = 1e5) -> Line:
    return lambda rng, i: f"{line(rng, i).rpartition(',')[0]},{size:g}" if i == 7 else line(rng, i)


def spend(rng: Rng, i: int) -> str:
    amount = round(float(np.exp(rng.normal(3, 0.5))), 2) if rng.random() < 0.5 else 0
    return f"u{i % 12},{'abc'[rng.integers(3)]},{amount}"


def offered(
    price: Callable[[int], Any], size: Callable[[int], str] = lambda i: "sm"[i // 12 % 2]
) -> Line:
    return lambda rng, i: f"u{i % 12},{price(i)},{size(i)},{rng.normal():.3f}"


ARMS = "--task user --arm item --reward r"
FEATURES = "--task user --reward r --features"
DESCRIBED = "user,price,size,r"

CASES = {
    "clicks only": Case(
        lambda rng, i: f"u{i % 12},{'ab'[i % 2]},{1 if rng.random() < 0.4 else ''}",
        ARMS, r"add --missing-reward 0", "--missing-reward 0",
    ),
    "unknown rewards": Case(
        lambda rng, i: f"u{i % 12},{'ab'[i // 12 % 2]},{rng.uniform(1, 9) if i % 5 < 2 else ''}",
        ARMS, r"add --allow-bad-rows", "--allow-bad-rows",
    ),
    "mostly bad": Case(
        lambda rng, i: f"u{i % 12},{'ab'[i % 2]},{rng.integers(2) if i % 3 == 0 else 'x'}",
        ARMS, r"add --allow-bad-rows", "--allow-bad-rows",
    ),
    "counts as clicks": Case(
        lambda rng, i: f"u{i % 12},{'ab'[i % 2]},{rng.integers(3)}",
        f"{ARMS} --family bernoulli", r"choose --family (gaussian)", "--family {1}",
        "--family bernoulli",
    ),
    "amounts as clicks with features": Case(
        lambda rng, i: f"u{i % 12},{rng.normal():.2f},s,{rng.integers(3)}",
        f"{FEATURES} price --family logistic", r"choose --family (linear)", "--family {1}",
        "--family logistic", DESCRIBED,
    ),
    "durations": Case(
        lambda rng, i: f"u{i % 12},{'ab'[i % 2]},{np.exp(rng.normal(3, 1)):.3f}",
        ARMS, r"say so by --family (gaussian)", "--family {1}",
    ),
    "durations with features": Case(
        lambda rng, i: f"u{i % 12},{rng.normal():.2f},s,{np.exp(rng.normal(3, 1)):.3f}",
        f"{FEATURES} price", r"say so by --family (linear)", "--family {1}", "", DESCRIBED,
    ),
    "an outlier": Case(with_huge(normal), ARMS, r"(--clip=\S+,\S+) \(", "{1}"),
    "an outlier of revenue": Case(
        with_huge(lambda rng, i: f"u{i % 12},{'ab'[i % 2]},{rng.integers(3)}"),
        f"{ARMS} --family gaussian", r"choose --family (spend)", "--family {1}",
        "--family gaussian",
    ),
    "a huge order": Case(with_huge(spend), ARMS, r"(--clip=0,\S+) \(", "{1}"),
    "rare arms": Case(
        lambda rng, i: f"u{i % 12},{'rare' if i == 3 else 'ab'[i % 2]},{rng.integers(2)}",
        ARMS, r"Leave them out \(--arms names those to keep\)", "--arms a,b",
    ),
    "a misspelt arm": Case(
        lambda rng, i: f"u{i % 12},{('shoes', 'books')[i % 2]},{rng.integers(2)}",
        f"{ARMS} --arms shose,books", r"did you mean '(shoes)'\?", "--arms {1},books",
        "--arms shose,books",
    ),
    "an arm without rows": Case(
        lambda rng, i: f"u{i % 12},{('shoes', 'books')[i % 2]},{rng.integers(2)}",
        f"{ARMS} --arms shoes,books,hats", r"--from PRIOR",
        "--from {folder}/arms.json --from-tasks 0",
        "--arms shoes,books,hats",
        files={"arms.json": lambda path: mixts.MixturePrior(
            mixts.BernoulliArms.uniform(3), arm_names=("shoes", "books", "hats")
        ).save(path)},
    ),
    "an arm that the earlier prior does not know": Case(
        lambda rng, i: f"u{i % 12},{('shoes', 'books', 'new')[i % 3]},{rng.integers(2)}",
        f"{ARMS} --from {{folder}}/arms.json --from-tasks 0", r"add the arms to the earlier one",
        "--from {folder}/wide.json", "--from {folder}/arms.json",
        files={name: lambda path, arms=arms: mixts.MixturePrior(
            mixts.BernoulliArms.uniform(len(arms)), arm_names=arms
        ).save(path) for name, arms in
            {"arms.json": ("shoes", "books"), "wide.json": ("shoes", "books", "new")}.items()},
    ),
    "items that come once": Case(
        lambda rng, i: f"u{i % 12},item {i // 12},{rng.integers(2)}",
        ARMS, r"if they may, fit with --repeatable", "--repeatable",
    ),
    "items that may come again": Case(
        lambda rng, i: f"u{i % 12},{'ab'[rng.integers(2)]},{rng.integers(2)}",
        f"{ARMS} --once", r"at most once in a task, as was given: --once", "", "--once",
    ),
    "many levels": Case(
        offered(lambda i: i, lambda i: f"s{i % 60}"),
        f"{FEATURES} price,size", r"--top-levels N", "--top-levels 5", "", DESCRIBED,
    ),
    "a feature with a stray text": Case(
        offered(lambda i: "free" if i == 9 else i),
        f"{FEATURES} price,size", r"leave the feature out of --features", "size", "price,size",
        DESCRIBED,
    ),
    "a feature of the task": Case(
        offered(lambda i: i % 12),
        f"{FEATURES} price,size", r"Give such a fact as --person .* instead of --features",
        "size --person price", "price,size", DESCRIBED,
    ),
    "a constant feature": Case(
        offered(lambda i: 1),
        f"{FEATURES} price,size", r"Leave it out of --features .*--intercept", "size --intercept",
        "price,size", DESCRIBED,
    ),
    "a level that an earlier prior does not know": Case(
        offered(lambda i: i, lambda i: "sml"[i // 12 % 3]),
        "--task user --reward r --from {folder}/earlier.json --from-tasks 0",
        r"Name the features by --features ", "--features price,size",
        "--from {folder}/earlier.json --from-tasks 0", DESCRIBED,
        files={"earlier.json": earlier_prior},
    ),
    "too many distinct rows to count": Case(
        lambda rng, i: f"u{i % 2},{rng.normal():.9f},s,{rng.integers(2)}",
        f"{FEATURES} price", r"--round-features DECIMALS", "--round-features 1", "", DESCRIBED,
        n_rows=20_100,
    ),
    "too many distinct rows for clicks": Case(
        lambda rng, i: f"u{i % 2},{rng.normal():.9f},s,{rng.integers(2)}",
        f"{FEATURES} price", r"choose --family (linear)", "--family {1}", "", DESCRIBED,
        n_rows=20_100,
    ),
    "another delimiter": Case(
        lambda rng, i: f"u{i % 12};{'ab'[i % 2]};{rng.integers(2)}",
        ARMS, r"add --delimiter '(.)'", "--delimiter {1}", "", "user;item;r",
    ),
    "a noise that is too small": Case(
        lambda rng, i: f"u{i % 24},{'ab'[i // 24 % 2]},{rng.normal():.3f}",
        f"{ARMS} --held-out 0.5 --noise-std 0.2", r"leave --noise-std out", "", "--noise-std 0.2",
    ),
    "a noise that is too large": Case(
        lambda rng, i: f"u{i % 24},{'ab'[i // 24 % 2]},{rng.normal():.3f}",
        f"{ARMS} --held-out 0.5 --noise-std 5", r"leave --noise-std out", "", "--noise-std 5",
    ),
    "no task begins earlier": Case(
        lambda rng, i: f"u{i % 12},{'ab'[i % 2]},{rng.integers(2)},{i // 12}",
        f"{ARMS} --held-out 0.2 --time at", r"leave out --time", "", "--time at", "user,item,r,at",
    ),
    "tasks that live long": Case(
        lambda rng, i: f"u{i % 12},{'ab'[i % 2]},{rng.integers(2)},{i}",
        f"{ARMS} --held-out 0.2 --time at", r"Without --time", "", "--time at", "user,item,r,at",
    ),
}  # fmt: skip


def changed(case: Case, words: list[str], said: re.Match[str], folder: Path) -> list[str]:
    """Return the command with the remedy applied."""
    known = {"folder": str(folder)}
    drop = case.drop.format(**known).split()
    at = next((i for i in range(len(words)) if words[i : i + len(drop)] == drop), None)
    assert not drop or at is not None, "the case takes out words that are not there"
    left = words if at is None or not drop else words[:at] + words[at + len(drop) :]
    add = case.add.format("", *said.groups(), **known).split()
    # A list that replaces another stands where that stood.
    return [*left[:at], *add, *left[at:]] if drop else [*left, *add]


@pytest.mark.parametrize("name", CASES)
def test_a_remedy_is_accepted_and_not_proposed_again(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASES[name]
    rng = np.random.default_rng(5)
    lines = [case.header, *(case.line(rng, i) for i in range(case.n_rows))]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for file, save in case.files.items():
        save(tmp_path / file)
    usual = f"fit {tmp_path}/log.csv --components 1 --no-report --force --out {tmp_path}/p.json"
    learn = "" if "--held-out" in case.command else " --held-out 0"
    words = f"{usual}{learn} {case.command}".format(folder=tmp_path).split()
    main(words)
    printed = " ".join("".join(capsys.readouterr()).split())
    said = re.search(case.said, printed)
    assert said is not None, printed
    assert main(changed(case, words, said, tmp_path)) == 0
    printed = " ".join("".join(capsys.readouterr()).split())
    assert re.search(case.said, printed) is None, printed


# -- remedies about the prior ----------------------------------------------------------------------


PLAIN = {"task": "user", "arm": "item", "reward": "r"}
LINEAR = {"task": "user", "features": ["price"], "reward": "r"}
LOGS: dict[str, tuple[Line, dict[str, Any]]] = {
    "quantities": (lambda rng, i: f"u{i % 12},{'ab'[i % 2]},{rng.integers(4)}", PLAIN),
    "numbers": (normal, PLAIN),
    "clicks": (lambda rng, i: f"u{i % 12},{'ab'[i % 2]},{rng.integers(2)}", PLAIN),
    "spends": (spend, {**PLAIN, "family": "spend"}),
    "linear": (lambda rng, i: f"u{i % 12},{rng.normal():.2f},{rng.normal():.2f}", LINEAR),
    "logistic": (lambda rng, i: f"u{i % 12},{rng.integers(4)},{rng.integers(2)}", LINEAR),
}
APPLIED: dict[str, tuple[str, Any]] = {
    "--robust": ("robust", 0.01),
    "leave --noise-std out": ("noise_std", None),
    "--noise per-task": ("noise", "per-task"),
    "--family spend": ("family", "spend"),
}
"""What each remedy changes; ``family`` is a column's option."""


def settings() -> Iterator[dict[str, Any]]:
    for robust, noise_std, noise in product(
        (0.0, 0.01), (None, 1.0), ("auto", "common", "per-task")
    ):
        yield {"robust": robust, "noise_std": noise_std, "noise": noise}


@pytest.mark.parametrize("name", LOGS)
def test_remedies_of_a_prior_depend_on_what_was_given(name: str, tmp_path: Path) -> None:
    """From each setting, each proposed remedy is accepted and then gone."""
    line, columns = LOGS[name]
    rng = np.random.default_rng(3)
    header = "user,price,r" if "features" in columns else "user,item,r"
    log = tmp_path / "log.csv"
    log.write_text("\n".join([header, *(line(rng, i) for i in range(96))]), encoding="utf-8")

    def remedies(given: dict[str, Any], family: str | None) -> dict[str, tuple[str, Any]]:
        columns_now = columns if family is None else {**columns, "family": family}
        made = fit.fit_logs(log, columns_now, n_components=1, held_out=0.25, seed=1, **given)
        assert made.check is not None
        words = " ".join(
            str(value)
            for one in made.check.calibration.values()
            for value in vars(one.remedies).values()
        )
        found = {text: change for text, change in APPLIED.items() if text in words}
        # Nothing else is proposed.
        assert len(OPTION.findall(re.sub("|".join(APPLIED), "", words))) == 0, words
        return found

    n_applied = 0
    for given in settings():
        try:
            proposed = remedies(given, None)
        except ParameterError:
            continue  # a setting that this family does not have
        for text, (option, value) in proposed.items():
            n_applied += 1
            family = value if option == "family" else None
            after = given if family is not None else {**given, option: value}
            assert text not in remedies(after, family), (given, text)
    assert n_applied > 0


def test_unused_kinds_are_left_out_one_step_at_a_time() -> None:
    """The broad kind of ``robust`` does not count, and no number below 1 is proposed."""
    family = mixts.BernoulliArms([[400, 1], [1, 400], [1, 1]], [[1, 400], [400, 1], [1, 1]])
    prior = mixts.MixturePrior(family, [0.5, 0.4, 0.1])
    tasks = BernoulliStatistics(successes=[[9, 0]] * 40, failures=[[0, 9]] * 40)
    found = mixts.check_prior(prior, tasks, seed=1)
    assert found.unused.endswith("try --components 1")
    assert found.with_remedies(measures.Remedies(n_kinds=2)).unused.endswith("try --components 1")
    assert found.with_remedies(measures.Remedies(n_kinds=1)).unused == ""


def test_every_option_that_is_proposed_has_a_case() -> None:
    """A new remedy needs a case above: it must not be refused, and must not repeat itself."""
    named = {
        option
        for module in SPEAKERS
        for text in sentences(module)
        for option in OPTION.findall(text)
    }
    tried = {option for case in CASES.values() for option in case.options}
    tried |= {option for text in APPLIED for option in OPTION.findall(text)} | {"--components"}
    assert named - tried == QUESTIONS


def sentences(module: Any) -> Iterator[str]:
    """Yield the texts of a module that are not docstrings."""
    tree = ast.parse(inspect.getsource(module))
    documented = {
        id(one.value)
        for node in ast.walk(tree)
        for one in (node.body if isinstance(getattr(node, "body", None), list) else [])
        if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in documented
        ):
            yield node.value
