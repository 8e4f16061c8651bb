"""The experiments beyond the paper: their settings, and verdicts that follow from numbers."""

from __future__ import annotations

import sys
from itertools import permutations

import numpy as np
import pytest
from mixts_paper.experiments import Measured, Setting, all_experiments
from mixts_paper.experiments.beyond import (
    NAMES,
    PLAIN,
    bounds,
    long_run,
    optimum,
    policies,
    riverswim,
)
from mixts_paper.experiments.beyond.optimum import count_tree
from mixts_paper.experiments.paper.latent_prior import latent_weights
from mixts_paper.experiments.report import render_text
from mixts_paper.experiments.verdicts import nowhere_worse, times_less

import mixts
from mixts.environments import RiverSwim
from mixts.simulation import Estimate

RUNS = 6


def jitter(seed: int, *shape: int) -> np.ndarray:
    """So that differences have errors."""
    return 1e-3 * np.random.default_rng(seed).normal(size=shape)


def made_up(regrets: dict[str, np.ndarray | float], n_rounds: int) -> dict[str, np.ndarray]:
    """Results of agents that lose so much in every round."""
    arrays = {"latent": np.zeros(RUNS, int)}
    for i, (name, regret) in enumerate(regrets.items()):
        arrays[f"regret/{name}"] = regret + jitter(i, RUNS, n_rounds)
    return arrays


def analysed(experiment: object, parts: dict[str, dict], n_rounds: int) -> dict[str, str]:
    measured = Measured(Setting(RUNS, n_rounds, 1), parts)
    return dict(experiment.EXPERIMENT.analyse(measured).verdicts)


@pytest.mark.parametrize("id", [id for id in all_experiments() if id.startswith("beyond/")])
def test_the_code_of_the_paper_that_it_uses_counts(id: str) -> None:
    """The hash of its results covers every module of the paper's group that it imports."""
    experiment = all_experiments()[id]
    module = sys.modules[type(experiment).__module__]
    homes = {getattr(value, "__module__", None) or "" for value in vars(module).values()}
    homes |= {value.__name__ for value in vars(module).values() if hasattr(value, "__path__")}
    homes |= {value.__name__ for value in vars(module).values() if type(value) is type(sys)}
    used = {name for name in homes if name.startswith("mixts_paper.experiments.paper.")}
    counted = {str(path) for path in experiment.sources()}
    assert all(sys.modules[name].__file__ in counted for name in used)
    assert (used == set()) == (experiment.uses == ())


# -- verdicts -------------------------------------------------------------------------------------


def test_one_of_many_comparisons_may_be_off_by_chance() -> None:
    fine = [Estimate(-2.5, 1.0)] + 99 * [Estimate(0.0, 1.0)]
    assert nowhere_worse(fine, 100 * [100]) == "undecided"
    assert nowhere_worse(fine[1:], 99 * [100]) == "holds"
    assert nowhere_worse(fine[:1], [100]) == "does not hold"
    worse = [Estimate(-3.6, 1.0), *fine[1:]]
    assert nowhere_worse(worse, 100 * [100]) == "does not hold"
    # The errors of few runs are uncertain; only the runs behind the worst difference count.
    assert nowhere_worse(worse, [6] + 99 * [100]) == "undecided"
    assert nowhere_worse(worse, [100] + 99 * [6]) == "does not hold"
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(2000, 40, 10))
    mean, error = noise.mean(axis=2), noise.std(axis=2, ddof=1) / np.sqrt(10)
    failed = np.mean(
        [
            nowhere_worse([Estimate(m, e) for m, e in zip(*one, strict=True)], 40 * [10])
            == "does not hold"
            for one in zip(mean, error, strict=True)
        ]
    )
    assert abs(failed - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 2000)


@pytest.mark.parametrize("few", [1, 2, 3])
def test_few_runs_do_not_confirm_that_nothing_is_worse(few: int) -> None:
    error = np.nan if few == 1 else 1.0
    differences = [Estimate(5.0, error)] + 99 * [Estimate(5.0, 1.0)]
    assert nowhere_worse(differences, [few] + 99 * [100]) == "undecided"
    assert nowhere_worse(differences[1:], 99 * [100]) == "holds"
    # What many runs show to be worse is worse, however few the others are.
    assert nowhere_worse([*differences, Estimate(-9.0, 1.0)], [few] + 100 * [100]) == (
        "does not hold"
    )


def test_a_factor_and_its_direction() -> None:
    mine = np.array([1.0, 1.1, 0.9, 1.0])
    assert times_less(mine, 20 * mine, 10.0) == "holds"
    assert times_less(mine, 5 * mine, 10.0) == "direction only"
    assert times_less(mine, 0.5 * mine, 10.0) == "does not hold"


# -- policies -------------------------------------------------------------------------------------


def test_all_bandits_of_the_paper_are_there() -> None:
    found = set(policies.PROBLEMS.values())
    assert {problem.width for problem in found if problem.n_components == 30} >= {
        0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5,
    }  # fmt: skip
    assert {problem.n_components for problem in found} == {2, 5, 10, 15, 20, 25, 30}
    assert {problem.exponent for problem in found} == {0.0, 0.5, 1.0, 1.5, 2.0, 3.0}
    steep = policies.PROBLEMS["P₀(s) ∝ s⁻²"].prior()
    np.testing.assert_allclose(steep.weights, latent_weights(2.0))


def test_slow_bandits_have_fewer_runs() -> None:
    def once(name: str, make: object) -> dict[str, np.ndarray]:
        covariance = np.broadcast_to(np.eye(64), (10, 64, 64))
        return {
            "mean": np.zeros((10, 64)), "covariance": covariance,
            "unimodal_mean": np.zeros((1, 64)), "unimodal_covariance": covariance[:1],
        }  # fmt: skip

    parts = policies.EXPERIMENT.parts(Setting(100, 50, 1), once)
    runs = {name: part.simulation.n_runs for name, part in parts.items()}
    assert runs["images"] == runs["width 0.5"] == runs["width 0.15"] == 20
    assert runs["width 0.1"] == runs["L = 5"] == runs["P₀(s) ∝ s⁻²"] == 100
    assert all(list(part.simulation.recipes) == list(PLAIN) for part in parts.values())


def policy_verdicts(extra: dict[str, float], n_images: int = RUNS) -> dict[str, str]:
    """MixIDS loses 0.1 less in a round than MixTS; on some bandits so much more."""
    parts = {
        name: made_up(
            {"MixTS": 1.0, "MixIDS": 0.9 + extra.get(name, 0.0), "Greedy": 2.0, "BayesUCB": 1.0},
            30,
        )
        for name in (*policies.PROBLEMS, policies.IMAGES)
    }
    images = {key: array[:n_images] for key, array in parts[policies.IMAGES].items()}
    return analysed(policies, parts | {policies.IMAGES: images}, 30)


def test_policies() -> None:
    assert set(policy_verdicts({}).values()) == {"holds"}
    worse = policy_verdicts({"L = 5": 0.2})
    assert worse == {"nowhere": "does not hold", "latent": "holds", "greedy": "holds"}
    assert policy_verdicts(dict.fromkeys(policies.LATENT, 0.2))["latent"] == "does not hold"


def test_each_bandit_counts_with_its_own_runs() -> None:
    assert policy_verdicts({}, n_images=2)["nowhere"] == "undecided"
    assert policy_verdicts({"L = 5": 0.2}, n_images=2)["nowhere"] == "does not hold"


def test_no_order_of_trying_states_is_better() -> None:
    weights = latent_weights(1.0)
    rng = np.random.default_rng(0)
    tries = np.arange(30)
    random = min(0.8 * (weights[rng.permutation(30)] * tries).sum() for _ in range(500))
    assert policies.in_order_regret(1.0) < random
    few = weights[:4] / weights[:4].sum()
    best = min(sum(p * i for i, p in enumerate(order)) for order in permutations(few))
    assert best == pytest.approx((np.sort(few)[::-1] * np.arange(4)).sum())
    assert policies.in_order_regret(0.0) == pytest.approx(0.8 * 29 / 2)


def test_ratio_of_regrets() -> None:
    rng = np.random.default_rng(1)
    theirs = rng.uniform(1, 2, 400)
    mine = 0.5 * theirs + rng.normal(0, 0.01, 400)
    ratio = policies.ratio_of(mine, theirs)
    assert abs(ratio.mean - 0.5) < 4 * ratio.error
    assert ratio.error == pytest.approx(0.01 / 20 / 1.5, rel=0.15)
    assert np.isnan(policies.ratio_of(mine, np.zeros(400)).mean)


def test_groups_of_rows_are_apart() -> None:
    rows = policies._with_gaps([*policies.PROBLEMS, "images"])
    assert rows.count("") == 3
    assert rows.index("") == 10
    assert rows[-2:] == ["", "images"]


# -- the optimum ----------------------------------------------------------------------------------


def rare_hit() -> mixts.MixturePrior:
    """Arm 1 is known to be fair; arm 2 is bad, but in one task of four excellent."""
    means, counts = np.array([[0.5, 0.95], [0.5, 0.25]]), np.array([100, 20])
    return mixts.MixturePrior(
        mixts.BernoulliArms(means * counts, (1 - means) * counts), [0.25, 0.75]
    )


def test_no_policy_is_better_than_the_best() -> None:
    prior = rare_hit()
    values = optimum.policy_values(prior, 3)
    assert set(values) == {*NAMES, optimum.OPTIMAL, optimum.UNIFORM}
    for name in NAMES:
        assert (values[name] <= values[optimum.OPTIMAL] + 1e-9).all()
        assert values[name].shape == (3,)
    np.testing.assert_allclose(values[optimum.UNIFORM], np.arange(1, 4) * (0.5 + 0.425) / 2)
    # With one round left the best mean is best: a policy that knows the end takes it.
    for name in ("Greedy", "MixIDS, horizon", "MixTS, horizon"):
        assert values[name][0] == pytest.approx(values[optimum.OPTIMAL][0])
    assert values["MixTS"][0] < values[optimum.OPTIMAL][0] - 1e-3


def test_a_policy_that_knows_the_end_is_told_each_horizon() -> None:
    """The value at horizon 2 is that of the policy with horizon=2, by hand."""
    prior = rare_hit()
    tree = count_tree(2, 2)
    success = prior.condition(tree.statistics(2)).mean_rewards()
    asked = mixts.MixTS.resume(prior, tree.statistics(2), seed=0, horizon=2)
    expected = tree.value(success, 2, asked.action_probabilities()[0])
    values = optimum.policy_values(prior, 2)
    assert values["MixTS, horizon"][1] == pytest.approx(expected, abs=1e-12)


def test_random_priors_depend_on_the_seed_and_the_block_only() -> None:
    part = optimum.ValueBlocks(12, 2, 1)
    assert part.n_blocks == 2
    first, last = part.play(0), part.play(1)
    assert (len(first["MixTS"]), len(last["MixTS"])) == (10, 2)
    again = optimum.ValueBlocks(30, 2, 1).play(1)
    np.testing.assert_array_equal(again["MixTS"][:2], last["MixTS"])
    assert len(np.unique(first["optimal"][:, 0])) == 10


def values_of(shares: dict[str, float]) -> dict[str, np.ndarray]:
    """Policies that have such a share of the best possible gain, under different priors."""
    rng = np.random.default_rng(0)
    best = rng.uniform(0.5, 1.0, (RUNS, 4))
    values = {optimum.UNIFORM: np.ones((RUNS, 4)), optimum.OPTIMAL: 1 + best}
    return values | {name: 1 + shares.get(name, 0.5) * best for name in NAMES}


def optimum_verdicts(**shares: float) -> dict[str, str]:
    given = {name.replace("_", ", "): share for name, share in shares.items()}
    values = values_of(given)
    return analysed(optimum, {"random": values}, 4)


def test_optimum() -> None:
    usual = {"MixIDS": 0.98, "MixIDS_horizon": 0.99, "Greedy": 0.95}
    assert set(optimum_verdicts(**usual).values()) == {"holds"}
    assert optimum_verdicts(**usual | {"MixTS": 0.99})["lead"] == "does not hold"
    assert optimum_verdicts(**usual | {"Greedy": 0.999})["informed"] == "does not hold"
    assert optimum_verdicts(**usual | {"Greedy": 1.01})["ceiling"] == "does not hold"


@pytest.mark.parametrize("asked", [4, 50])
def test_the_report_says_that_longer_tasks_are_cut(asked: int) -> None:
    parts = optimum.EXPERIMENT.parts(Setting(RUNS, asked, 1), lambda name, make: make())
    assert parts["random"]._n_rounds == min(asked, optimum.LONGEST)
    values = values_of({})
    measured = Measured(Setting(RUNS, asked, 1), {"random": values})
    text = render_text(optimum.EXPERIMENT, optimum.EXPERIMENT.analyse(measured)).paragraphs[0]
    assert "at most 8 rounds, even if" in text
    assert ("here it asks for 50" in text) == (asked == 50)


def test_shares_are_ratios_of_means() -> None:
    shares = optimum.gain_shares(values_of({"MixTS": 0.7}), "MixTS")
    np.testing.assert_allclose(shares.mean, 0.7)
    np.testing.assert_allclose(shares.error, 0.0, atol=1e-12)


# -- the long run ---------------------------------------------------------------------------------


def long_verdicts(ids: np.ndarray, greedy: np.ndarray) -> dict[str, str]:
    given = {"MixTS": 1e-3, "MixIDS": ids, "Greedy": greedy, "BayesUCB": 1e-3}
    return analysed(long_run, {"agents": made_up(given, 1000)}, 1000)


def test_long_run() -> None:
    t = np.arange(1, 1001)
    logarithm, line = np.broadcast_to(5 / t, (RUNS, 1000)), np.full((RUNS, 1000), 0.1)
    assert set(long_verdicts(logarithm, line).values()) == {"holds"}
    other = long_verdicts(line, logarithm)
    assert set(other.values()) == {"does not hold"}
    root = np.broadcast_to(0.5 / np.sqrt(t), (RUNS, 1000))
    assert long_verdicts(root, line)["logarithm"] == "does not hold"


def test_factors_of_ten() -> None:
    regret = np.ones((2, 1000))
    before, last = long_run.by_factor_of_ten(regret)
    assert (before == 90).all()
    assert (last == 900).all()
    regret[0, -100:] = 0.0
    assert long_run.stuck_runs(regret).tolist() == [False, True]


# -- RiverSwim ------------------------------------------------------------------------------------


def test_changed_counts() -> None:
    river = RiverSwim()
    base = river.prior.family
    for row in riverswim.CHANGES:
        family = riverswim.changed_prior(river, row).family
        np.testing.assert_allclose(
            family.transition, row.factor * base.transition + row.transitions
        )
        np.testing.assert_allclose(family.reward, row.factor * base.reward + row.rewards)
        assert (family.transition > 0).all() == (row.transitions > 0)
    parts = riverswim.EXPERIMENT.parts(Setting(40, 10, 1), lambda name, make: make())
    assert len(parts) == len(riverswim.CHANGES) + 2
    seeds = {(p.simulation.seed, p.simulation.block_size) for p in parts.values()}
    assert len(seeds) == 1  # the same rivers and the same luck in every row


def river_verdicts(paper: float, added: float, units: float = 2.0) -> dict[str, str]:
    """PSRL loses 100 in every episode."""
    parts = {
        row.name: made_up({"MixTS": added if row.transitions else paper, "UniTS": units}, 20)
        for row in riverswim.CHANGES
    }
    parts["rivals"] = made_up({"PSRL, neighbours": 30.0, "PSRL": 100.0}, 20)
    parts[riverswim.POSSIBLE] = made_up({"MixTS": added, "UniTS": units, "PSRL": 100.0}, 20)
    return analysed(riverswim, parts, 20)


def test_riverswim() -> None:
    assert set(river_verdicts(1.0, 8.0).values()) == {"holds"}
    few = river_verdicts(1.0, 20.0, units=30.0)
    assert few == {
        "strength": "holds", "units": "direction only", "zeros": "holds",
        "added": "direction only", "possible": "direction only",
    }  # fmt: skip
    assert river_verdicts(1.0, 2.0)["zeros"] == "does not hold"
    assert river_verdicts(50.0, 8.0)["strength"] == "direction only"


# -- bounds ---------------------------------------------------------------------------------------

COST = "observed/MixTS/identification"


@pytest.fixture(scope="module")
def followed() -> dict[str, dict]:
    """The bandit of the bounds, played a little."""
    parts = bounds.EXPERIMENT.parts(Setting(40, 60, 1), lambda name, make: make())
    return {name: part.play(0) for name, part in parts.items()}


def bound_verdicts(parts: dict[str, dict]) -> dict[str, str]:
    return dict(bounds.EXPERIMENT.analyse(Measured(Setting(40, 60, 1), parts)).verdicts)


def test_the_steps_of_the_bounds_hold(followed: dict[str, dict]) -> None:
    assert set(bound_verdicts(followed).values()) == {"holds"}


@pytest.mark.parametrize(
    ("array", "factor", "failing"),
    [
        (COST, 2.0, {"ratio", "known", "tight", "steps"}),
        ("observed/MixTS/pairs", 3.0, {"shrinking", "steps"}),
        ("observed/MixTS/variances", 30.0, {"steps"}),
    ],
)
def test_a_violated_step_is_reported(
    followed: dict[str, dict], array: str, factor: float, failing: set[str]
) -> None:
    broken = {name: {**part, array: factor * part[array]} for name, part in followed.items()}
    verdicts = bound_verdicts(broken)
    assert {name for name, verdict in verdicts.items() if verdict != "holds"} == failing


def test_what_the_proof_charges() -> None:
    """All that the roots of 30 equally likely states can lose costs the whole bound."""
    found = bounds.charged(np.array([[14.5, 7.0, 0.0]]))
    np.testing.assert_allclose(found, np.array([7.5, 14.5]) * 0.8 / -np.expm1(-8.0))
    assert found[-1] == pytest.approx(11.603893, rel=1e-6)
