"""Recommend films to new people, with a service that is killed half-way.

Start `mixts serve` and simulate its client: in every round each person is offered ten films, the
service picks one, and the rating is reported late and in any order. Half-way the service is killed
(SIGKILL) during its work and started again, and the client continues. At the end nothing is missing
and nothing was counted twice. The dashboard is at the printed address.

    python examples/live_service.py                              # simulated people
    python examples/live_service.py --ratings ml-latest-small    # real people, of MovieLens

With --ratings (a folder or zip with ratings.csv and movies.csv), 90 users are held out, and films'
features and the prior are learned from the others, as in the study of MovieLens.
Needs mixts-serve; --screenshot also playwright and a Chromium.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
from mixts_serve import Decide, DecisionStore, Reward
from mixts_serve.client import Client
from mixts_serve.store.rebuild import rebuild
from numpy.typing import NDArray

import mixts
from mixts import errors
from mixts.environments import ReplayBandit

N_PEOPLE = 90
N_OFFERED = 10
DELAY = 3.0
"""Mean delay of a reward, in rounds."""
KINDS = 2
COMMAND = "import sys; from mixts.cli import main; sys.exit(main(sys.argv[1:]))"

Numbers = NDArray[Any]


class Problem(NamedTuple):
    """People to decide for, and the prior learned from others."""

    prior: mixts.MixturePrior
    features: Numbers
    """Features of the film of each rating, (n, d)."""
    ratings: Numbers
    people: Numbers
    """Person of each rating, numbered from 0."""
    names: list[str]


def main() -> None:
    """Start the service, play with a kill half-way, and check the store."""
    options = read_options()
    problem = from_movielens(options.ratings) if options.ratings else simulated()
    with tempfile.TemporaryDirectory() as folder:
        problem.prior.save(Path(folder) / "prior.json")
        with served(Path(folder), options.port) as service:
            print(f"the dashboard is at {service.address}", flush=True)
            play(problem, service, options.rounds, options.pause, options.screenshot)
            if options.wait:
                input("press Enter to end ")
        check_store(Path(folder) / "decisions.db")


# -- people ---------------------------------------------------------------------------------------


def from_movielens(path: Path) -> Problem:
    """Return held-out users of MovieLens, and a prior learned from the other users."""
    sys.path.insert(0, str(Path(__file__).parents[1]))  # where the folder studies is
    from mixts_paper.studies.movielens.ratings import (
        learn_features,
        parse,
        read_files,
        task_statistics,
    )
    from mixts_paper.studies.movielens.splits import held_out_users

    ratings = parse(read_files(path))
    held_out = held_out_users(ratings, split=0, seed=1)[:N_PEOPLE]
    training = np.ones(ratings.n_users, bool)
    training[held_out] = False
    seen = training[ratings.users]
    print(f"learning from {training.sum()} users", flush=True)
    features = learn_features(ratings, training)
    past = task_statistics(features.rows, ratings.ratings[seen], ratings.users[seen])
    learned = mixts.learn_prior(past, KINDS, seed=1)
    users, people = np.unique(ratings.users[~seen], return_inverse=True)
    names = [f"user {user + 1}" for user in users]
    films = features.films[ratings.films[~seen]]
    return Problem(named(learned), films, ratings.ratings[~seen], people, names)


def simulated(n_films: int = 60) -> Problem:
    """Return simulated people of two kinds, and a prior learned from others like them."""
    rng = np.random.default_rng(1)
    tastes = np.array([[3.5, 0.8, -0.4, 0.3], [3.2, -0.5, 0.9, 0.3]])
    family = mixts.LinearGaussian(tastes, np.full((2, 4), 0.1), 0.7, "diag")
    truth = mixts.MixturePrior(family)
    films = np.column_stack([np.ones((300, 1)), rng.normal(size=(300, 3))])

    def rated(n_people: int) -> tuple[Numbers, Numbers, Numbers]:
        _, coefficients = truth.draw(rng, n_people)
        chosen = np.stack([rng.choice(300, n_films, replace=False) for _ in range(n_people)])
        noise = 0.7 * rng.normal(size=chosen.shape)
        ratings = np.einsum("pfd,pd->pf", films[chosen], coefficients) + noise
        people = np.repeat(np.arange(n_people), n_films)
        return films[chosen.ravel()], ratings.ravel(), people

    features, ratings, people = rated(300)
    past = truth.belief(300)
    past.update(features, ratings, people)
    learned = mixts.learn_prior(past.statistics, KINDS, seed=1)
    return Problem(named(learned), *rated(N_PEOPLE), [f"person {i + 1}" for i in range(N_PEOPLE)])


def named(prior: mixts.MixturePrior) -> mixts.MixturePrior:
    """Return the prior with names for its kinds, which the dashboard shows."""
    names = [f"kind {chr(ord('A') + s)}" for s in range(prior.n_components)]
    return mixts.MixturePrior(prior.family, prior.weights, names)


# -- the client -----------------------------------------------------------------------------------


def play(
    problem: Problem, service: Service, n_rounds: int, pause: float, screenshot: Path | None
) -> None:
    """Offer films, ask the service which to show, and report the ratings late."""
    rng = np.random.default_rng(2)
    bandit = ReplayBandit(problem.features, problem.ratings, problem.people, N_OFFERED)
    run = bandit.start(lambda _: rng, len(problem.names))
    names = [problem.names[i] for i in run.latent]
    waiting: list[Reward] = []
    started, means = time.perf_counter(), []
    with Client(service.address, retries=12) as client:
        for turn in range(n_rounds):
            if turn == n_rounds // 2:
                service.kill_soon()
            offer = run.next_round()
            requests = [
                Decide(name, actions, None if offer.mask is None else offer.mask[i], f"{turn}")
                for i, (name, actions) in enumerate(zip(names, offer.actions, strict=True))
            ]
            decisions = [good(result) for result in client.decide_many(requests)]
            outcome = run.play(np.array([decision.action for decision in decisions]))
            means.append(float(outcome.rewards.mean()))
            waiting += [
                Reward(decision.id, float(value))
                for decision, value in zip(decisions, outcome.rewards, strict=True)
            ]
            waiting = report_some(client, waiting, rng)
            time.sleep(pause)
        if screenshot is not None:
            photograph(service.address, screenshot)
        for result in client.reward_many(waiting):
            good(result)
        kinds = np.mean([client.task(name).weights for name in names], axis=0)
    seconds = time.perf_counter() - started
    print(f"{n_rounds} rounds with {len(names)} people in {seconds:.1f} s")
    counts = np.bincount(problem.people)
    usual = np.mean(np.bincount(problem.people, problem.ratings) / counts)
    print(
        f"mean rating of films picked: {np.mean(means[:5]):.2f} in the first 5 rounds, "
        f"{np.mean(means):.2f} in all; of all films they rated: {usual:.2f}"
    )
    shares = ", ".join(
        f"{share:.0%} {name}" for name, share in zip(problem.prior.names or (), kinds, strict=True)
    )
    print(f"the people are {shares}")


def report_some(client: Client, waiting: list[Reward], rng: np.random.Generator) -> list[Reward]:
    """Report some rewards, in any order, a few of them twice; return the others."""
    order = rng.permutation(len(waiting))
    n_reported = rng.binomial(len(waiting), 1 / DELAY)
    reported = [waiting[i] for i in order[:n_reported]]
    for result in client.reward_many(reported + reported[: n_reported // 20]):
        good(result)
    return [waiting[i] for i in order[n_reported:]]


def good(result: Any) -> Any:
    """Return a result; raise it if it is an exception."""
    if isinstance(result, errors.MixtsError):
        raise result
    return result


def check_store(store: Path) -> None:
    """Compare the statistics with the log, after the service has ended."""
    with DecisionStore(store) as decisions:
        found = rebuild(decisions, write=False)
    print(
        f"{found.decisions:,} decisions and {found.rewards:,} rewards in the log; the statistics "
        f"of {found.differing} of {found.tasks} tasks differ from it"
    )


# -- the service ----------------------------------------------------------------------------------


class Service:
    """`mixts serve` as a process that may be killed."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder, self._port = folder, port
        self._killer = threading.Thread()
        self._process = self._start()
        ready = re.search(r"http://\S+", self._process.stdout.readline())
        if ready is None:
            raise SystemExit(self._process.wait())
        self.address = ready[0]
        self._port = urlsplit(self.address).port

    def _start(self) -> subprocess.Popen[str]:
        words = ["serve", "--store", "decisions.db", "--prior", "prior.json"]
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND, *words, "--port", str(self._port)],
            cwd=self._folder, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def kill_soon(self) -> None:
        """Kill the service during its work, and start it again."""

        def kill() -> None:
            time.sleep(0.01)
            self._process.kill()
            self._process.wait()
            print("killed", flush=True)
            started = time.perf_counter()
            self._process = self._start()
            self._process.stdout.readline()
            print(f"started again in {time.perf_counter() - started:.1f} s", flush=True)

        self._killer = threading.Thread(target=kill)
        self._killer.start()

    def stop(self) -> None:
        """Stop the service with SIGTERM."""
        if self._killer.ident is not None:
            self._killer.join()
        self._process.terminate()
        self._process.wait()


@contextmanager
def served(folder: Path, port: int) -> Iterator[Service]:
    """Run a service inside the ``with`` block."""
    service = Service(folder, port)
    try:
        yield service
    finally:
        service.stop()


def photograph(address: str, path: Path) -> None:
    """Save a picture of the dashboard."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1200, "height": 1020}, device_scale_factor=1.5)
        page.goto(f"{address}/?span=quarter")
        page.screenshot(path=path)
        browser.close()


def read_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ratings", type=Path, help="MovieLens (default: simulated people)")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--pause", type=float, default=0.5, help="seconds between rounds")
    parser.add_argument("--port", type=int, default=0, help="(default: any free port)")
    parser.add_argument("--screenshot", type=Path, metavar="PNG", help="picture of the dashboard")
    parser.add_argument("--wait", action="store_true", help="keep the service running at the end")
    return parser.parse_args()


if __name__ == "__main__":
    main()
