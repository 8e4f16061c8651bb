"""The public names and signatures: a contract with scripts outside this repository."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import mixts_serve
import pytest

import mixts
import mixts.errors

PUBLIC_NAMES = [
    "Agent",
    "BanditEnvironment",
    "BayesUCB",
    "Belief",
    "BernoulliArms",
    "ClassificationBandit",
    "CorralExp4",
    "Exp4",
    "Family",
    "Features",
    "GaussianArms",
    "Greedy",
    "LevelFeature",
    "LinearBernoulli",
    "LinearGaussian",
    "LinearStudent",
    "MDP",
    "MDPEnvironment",
    "MixIDS",
    "MixTS",
    "MixturePrior",
    "MixturePriorEstimator",
    "NumberFeature",
    "Oracle",
    "PoissonArms",
    "Pooled",
    "PriorCheck",
    "ReplayBandit",
    "Results",
    "RiverSwim",
    "SpendArms",
    "Statistics",
    "StudentArms",
    "Sweep",
    "TabularMDP",
    "Trajectory",
    "check_prior",
    "fit_logs",
    "learn_prior",
    "plot",
    "simulate",
]

SIGNATURES = {
    "BernoulliArms": "(alpha, beta)",
    "GaussianArms": "(mean, variance, noise_std)",
    "PoissonArms": "(shape, rate)",
    "SpendArms": "(alpha, beta, log_spend, strength, shape, scale)",
    "LinearBernoulli": (
        "(mean, covariance, covariance_type='full', *, decimals=None, max_rows=10000)"
    ),
    "LinearGaussian": "(mean, covariance, noise_std, covariance_type='full')",
    "LinearStudent": "(mean, covariance, noise_std, degrees, covariance_type='full')",
    "StudentArms": "(mean, variance, noise_std, degrees)",
    "MDP": "(rewards, transitions, horizon, initial)",
    "MDP.plan": "(self, rng=None)",
    "MDP.evaluate": "(self, policy)",
    "MDP.value": "(self, policy)",
    "TabularMDP": "(reward, transition, horizon, initial)",
    "TabularMDP.uniform": "(n_states, n_actions, horizon, initial=None, support=None)",
    "TabularMDP.from_means": "(mdps, strength)",
    "TabularMDP.mdp": "(self, parameters)",
    "Trajectory": "(states, actions, rewards, lengths=None)",
    "MixturePrior": (
        "(family, weights=None, names=None, arm_names=None, features=None, *, descriptions=None)"
    ),
    "MixturePrior.collapse": "(self)",
    "MixturePrior.draw": "(self, rng, n)",
    "MixturePrior.with_arms": "(self, family)",
    "MixturePrior.save": "(self, path)",
    "MixturePrior.load": "(path)",
    "MixturePrior.belief": "(self, n_tasks=None)",
    "MixturePrior.condition": "(self, statistics)",
    "Belief.update": "(self, actions, outcomes=None, tasks=None)",
    "Belief.sample": "(self, rng)",
    "Belief.mean_rewards": "(self, actions=None)",
    "Belief.add_tasks": "(self, n)",
    "Statistics.save": "(self, path)",
    "Statistics.load": "(path)",
    "MixTS": "(prior, n_tasks=None, seed=None)",
    "MixIDS": "(prior, n_tasks=None, seed=None)",
    "MixIDS.terms": "(self, actions=None, tasks=None, mask=None)",
    "Greedy": "(prior, n_tasks=None, seed=None)",
    "BayesUCB": "(prior, n_tasks=None, seed=None)",
    "MixTS.act": "(self, actions=None, tasks=None, mask=None)",
    "MixTS.update": "(self, actions, outcomes=None, tasks=None)",
    "MixTS.action_probabilities": "(self, actions=None, tasks=None, mask=None)",
    "MixTS.act_with_probabilities": "(self, actions=None, tasks=None, mask=None, floor=0.0)",
    "Exp4": "(experts, n_rounds=None, gamma=None, eta=None, n_tasks=None, seed=None)",
    "Exp4.act": "(self, actions=None, tasks=None, mask=None)",
    "Exp4.update": "(self, actions, outcomes=None, tasks=None)",
    "CorralExp4": "(prior, n_rounds=None, gamma=None, eta=None, n_tasks=None, seed=None)",
    "CorralExp4.act": "(self, actions=None, tasks=None, mask=None)",
    "CorralExp4.update": "(self, actions, outcomes=None, tasks=None)",
    "Oracle": "(prior, latent, n_tasks=None, seed=None)",
    "Oracle.act": "(self, actions=None, tasks=None, mask=None)",
    "Oracle.update": "(self, actions, outcomes=None, tasks=None)",
    "MixTS.resume": "(prior, statistics, seed=None)",
    "MixturePrior.from_bytes": "(content)",
    "MixturePrior.to_bytes": "(self)",
    "mixts_serve.Decider": "(prior, store)",
    "mixts_serve.Decider.decide": "(self, task, actions=None, mask=None, key=None)",
    "mixts_serve.Decider.reward": "(self, decision_id, value=None, metrics=None)",
    "mixts_serve.Decider.upload_prior": "(self, prior)",
    "mixts_serve.Decider.activate_prior": "(self, version)",
    "mixts_serve.DecisionStore": "(path_or_url)",
    "check_prior": "(prior, held_out_tasks)",
    "ReplayBandit": "(features, rewards, tasks, n_actions=10, n_rounds=None)",
    "learn_prior": (
        "(tasks, n_components, method='evidence', *, seed=None, noise_std=None, horizon=None, "
        "initial=None, support=None)"
    ),
    "simulate": "(agents, environment, n_rounds, n_runs, seed, executor=None, progress=False)",
    "BanditEnvironment": "(prior, actions=None)",
    "MDPEnvironment": "(prior)",
    "RiverSwim": "(n_states=10, current=None, *, horizon=20, strength=30.0, start=None)",
    "RiverSwim.mean_mdp": "(self, current)",
    "Results.table": "(self)",
    "ClassificationBandit": "(features, labels, n_actions=10, success=(0.9, 0.1))",
    "Sweep": "(parameter, values, totals)",
    "Sweep.of": "(parameter, values, results)",
    "mixts_paper.analysis.decompose_regret": "(prior, environment, n_rounds, n_runs, seed)",
    "mixts_paper.analysis.identify": "(prior, environment, n_rounds, seed)",
    "mixts_paper.bounds.of": "(prior, n, actions=None)",
    "mixts_paper.bounds.entropy": "(weights)",
    "mixts_paper.bounds.effective_states": "(weights)",
    "mixts_paper.bounds.entropy_terms": (
        "(n, weights, prior_means, covariances, noise_std, kappa, n_actions, "
        "best_action_entropy=None, mean_range=None)"
    ),
    "mixts_paper.bounds.bounded_entropy_bound": "(n, weights, n_arms, best_action_entropy)",
    "mixts_paper.bounds.count_bound": (
        "(n, weights, noise_std, kappa, prior_variance, mean_range, delta=None)"
    ),
    "mixts_paper.bounds.known_models": "(weights, means, affinity, n=None)",
    "mixts_paper.bounds.known_mdps": "(weights, mdps, n=None)",
    "mixts_paper.bounds.gaussian_affinity": "(means, noise_std)",
    "mixts_paper.bounds.bernoulli_affinity": "(means)",
    "mixts_paper.bounds.narrow_terms": "(n, weights, prior_means, width, noise_std, learning)",
    "mixts_paper.analysis.measure_latent_cost": "(prior, environment, n_rounds, n_runs, seed)",
    "mixts_paper.bounds.theorem1": (
        "(n, d, n_components, noise_std, kappa, max_prior_variance, form='statement')"
    ),
    "mixts_paper.bounds.theorem2": (
        "(n, n_states, n_actions, horizon, n_components, min_pseudo_count, form='statement')"
    ),
}


def public(path: str) -> Any:
    """The object of a dotted path below ``mixts``, ``mixts_serve`` or ``mixts_paper.<module>``."""
    value: Any = mixts
    names = path.split(".")
    if names[0] == "mixts_serve":
        value = mixts_serve
        names = names[1:]
    elif names[0] == "mixts_paper":
        value = import_module(".".join(names[:2]))
        names = names[2:]
    for name in names:
        value = getattr(value, name)
    return value


def contract(function: Callable[..., Any], n_parameters: int) -> str:
    """The first parameters without annotations, and after them those that a caller must give."""
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in inspect.signature(function).parameters.values()
    ]
    extra = [p for p in parameters[n_parameters:] if p.default is inspect.Parameter.empty]
    kept = [*parameters[:n_parameters], *(p for p in extra if p.kind is not p.VAR_KEYWORD)]
    return str(inspect.Signature(kept))


def test_public_names_are_pinned() -> None:
    assert sorted(mixts.__all__) == PUBLIC_NAMES
    assert len(mixts.__all__) == len(set(mixts.__all__))


def test_every_public_name_is_there_and_has_a_docstring() -> None:
    for name in PUBLIC_NAMES:
        assert inspect.getdoc(public(name)), name


@pytest.mark.parametrize("path", SIGNATURES)
def test_signatures_hold(path: str) -> None:
    """Check names, order and defaults; parameters that are added after them must have a default."""
    expected = SIGNATURES[path]
    n_parameters = expected.count(",") + 1 - expected.count("*, ")
    assert contract(public(path), n_parameters) == expected


def test_attributes_hold() -> None:
    prior = mixts.MixturePrior(mixts.BernoulliArms([[1.0, 2.0]], [[2.0, 1.0]]))
    agent = mixts.MixTS(prior, seed=0)
    agent.act()
    river = mixts.RiverSwim(3, horizon=2)
    mdp = river.mean_mdp("left")
    for value, names in [
        (prior, ["n_components", "weights", "family"]),
        (prior.belief(), ["weights", "log_evidence", "statistics"]),
        (prior.belief(2).statistics, ["__add__", "__len__", "__getitem__", "concatenate"]),
        (agent, ["belief", "last_latent"]),
        (river, ["prior"]),
        (river.prior.family, ["min_pseudo_count", "horizon", "initial"]),
        (river.prior.belief().statistics, ["rewards", "transitions"]),
        (mdp, ["rewards", "transitions", "horizon", "initial"]),
        (mdp.plan(), ["policy", "values"]),
    ]:
        assert [name for name in names if not hasattr(value, name)] == []


def test_the_import_loads_no_library_and_a_star_imports_every_name() -> None:
    script = """
import pickle, sys
import mixts
heavy = {"numpy", "scipy"} & set(sys.modules)
assert not heavy, heavy
assert set(mixts.__all__) <= set(dir(mixts))
family = pickle.loads(pickle.dumps(mixts.BernoulliArms([[1.0]], [[2.0]])))
assert type(family) is mixts.BernoulliArms
names = {}
exec("from mixts import *", names)
assert set(mixts.__all__) <= set(names)
"""
    done = subprocess.run([sys.executable, "-c", script], check=False, timeout=300)
    assert done.returncode == 0


@pytest.mark.parametrize("words", [["--help"], ["--version"]])
def test_the_command_line_starts_without_libraries(words: list[str]) -> None:
    script = f"""
import sys
from mixts.cli import main
try:
    main({words})
except SystemExit as end:
    assert end.code == 0
heavy = {{"numpy", "scipy"}} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, stdout=subprocess.PIPE, timeout=300
    )
    assert done.returncode == 0
    assert done.stdout


def test_serving_loads_nothing_that_only_learning_needs() -> None:
    """A service starts in half the time, with half the memory."""
    script = """
import sys
import mixts_serve.refitter
from mixts_serve.decider import Decider
from mixts_serve.http.app import Service
heavy = {"scipy.special", "scipy.stats", "mixts.learning"} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", script], check=False, timeout=300)
    assert done.returncode == 0


def test_the_core_needs_no_extra() -> None:
    """Installed alone, mixts imports with only its own dependencies at hand."""
    absent = [
        "apsw", "beartype", "dask", "distributed", "gymnasium", "httptools", "httpx", "jaxtyping",
        "jinja2", "matplotlib", "msgspec", "playwright", "psycopg", "pyarrow", "rich", "sklearn",
        "threadpoolctl",
    ]  # fmt: skip
    script = (
        f"import sys; sys.modules.update(dict.fromkeys({absent})); import mixts; "
        "from mixts.cli import main; sys.exit(main(['reproduce', '--list']))"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False, timeout=300)
    assert done.returncode == 0
