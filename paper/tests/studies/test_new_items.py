import pytest
from mixts_paper.studies import new_items


@pytest.fixture(scope="module")
def courses():
    return new_items.study(n_worlds=1, n_tasks=40, n_rounds=4)


def test_a_flat_prior_gives_new_items_nearly_all_first_decisions(courses):
    assert courses["Thompson sampling", "Beta(1, 1)"].share[0] > 0.9


@pytest.mark.parametrize("policy", new_items.POLICIES)
def test_a_learned_prior_over_arms_leaves_most_decisions_to_known_items(courses, policy):
    assert courses[policy, "arm_prior"].share[0] < 0.5


@pytest.mark.parametrize("policy", new_items.POLICIES)
def test_every_decision_is_within_the_limits(courses, policy):
    share = courses[policy, "arm_prior, 2% to 5%"].share
    assert new_items.LEAST - 1e-12 <= share.min() <= share.max() <= new_items.MOST + 1e-12


def test_the_command_prints_every_policy_and_draws(capsys, tmp_path):
    picture = tmp_path / "new_items.png"
    new_items.main(["--worlds", "1", "--tasks", "5", "--rounds", "1", "--out", str(picture)])
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("bestseller", *new_items.POLICIES))
    assert picture.stat().st_size > 0
