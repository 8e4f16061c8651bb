from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import mixts
from mixts.bridges.gym import EpisodePlayer, RewardScale, tabular_model, to_gymnasium
from mixts.errors import ActionError, ObservationError, OutcomeError, ParameterError
from tests.unit.bridges.gym.worlds import END, Walk, frozen_lake

STAY, RIGHT, LEFT = 1, 2, 0


def policy(*actions: int) -> np.ndarray:
    """An action for each step; after the end of the episode those of the other sign."""
    choices = np.repeat(np.array(actions)[:, None], 6, axis=1)
    choices[:, END] = 2 - choices[:, END]
    return choices


def test_an_episode_is_numbered_and_has_the_state_after_its_last_step() -> None:
    player = EpisodePlayer(Walk(), 4)
    assert (player.n_states, player.n_actions, player.absorbing) == (6, 3, END)
    played = player.play(policy(LEFT, RIGHT, RIGHT, STAY))
    np.testing.assert_array_equal(played.states, [2, 1, 2, 3, 3])
    np.testing.assert_array_equal(played.actions, [LEFT, RIGHT, RIGHT, STAY])
    np.testing.assert_array_equal(played.rewards, [0, 0, 1, 1])
    assert played.lengths is None
    assert (player.last_return, player.last_length) == (2.0, 4)


def test_the_end_of_an_episode_is_a_state_that_is_played_to_the_horizon() -> None:
    player = EpisodePlayer(Walk(), 5)
    played = player.play(policy(RIGHT, RIGHT, RIGHT, STAY, LEFT))
    np.testing.assert_array_equal(played.states, [2, 3, END, END, END, END])
    np.testing.assert_array_equal(played.actions, [RIGHT, RIGHT, LEFT, STAY, RIGHT])
    np.testing.assert_array_equal(played.rewards, [1, 1, 0, 0, 0])
    assert played.lengths is None
    assert (player.last_return, player.last_length) == (2.0, 2)


def test_an_episode_may_end_with_the_last_step() -> None:
    played = EpisodePlayer(Walk(), 2).play(policy(RIGHT, RIGHT))
    np.testing.assert_array_equal(played.states, [2, 3, END])
    np.testing.assert_array_equal(played.rewards, [1, 1])


def test_truncation_just_ends_counting() -> None:
    player = EpisodePlayer(Walk(limit=2), 5)
    played = player.play(policy(RIGHT, STAY, RIGHT, RIGHT, RIGHT))
    assert played.lengths == 2
    np.testing.assert_array_equal(played.states[:3], [2, 3, 3])
    np.testing.assert_array_equal(played.rewards[:2], [1, 1])
    assert (player.last_return, player.last_length, played.returns) == (2.0, 2, 2.0)
    belief = player.uniform_prior().belief()
    belief.update(played, None)
    counts = belief.statistics.transitions
    assert counts.sum() == 2
    assert counts[2, RIGHT, 3] == counts[3, STAY, 3] == 1
    # Nothing was learned of the absorbing state, and nothing is wrong with what came after.
    assert belief.statistics.rewards.sum() == 2


def test_an_episode_that_ends_when_it_is_cut_off_has_ended() -> None:
    played = EpisodePlayer(Walk(limit=2), 4).play(policy(RIGHT, RIGHT, STAY, STAY))
    assert played.lengths is None
    np.testing.assert_array_equal(played.states, [2, 3, END, END, END])


def test_truncation_at_the_horizon_leaves_nothing_out() -> None:
    played = EpisodePlayer(Walk(limit=3), 3).play(policy(LEFT, STAY, STAY))
    assert played.lengths is None
    np.testing.assert_array_equal(played.states, [2, 1, 1, 1])


def test_the_first_reset_alone_has_a_seed() -> None:
    def seeds(seed: Any) -> list[int | None]:
        env = Walk()
        player = EpisodePlayer(env, 1, seed=seed)
        for _ in range(3):
            player.play(policy(STAY))
        return env.seeds

    assert seeds(None) == [None, None, None]
    first, *others = seeds(7)
    assert isinstance(first, int)
    assert others == [None, None]
    assert seeds(7) == [first, None, None]
    assert seeds(8) != [first, None, None]


def test_structured_spaces_are_played() -> None:
    class Pair(Walk):
        """The walk with its position in a tuple and its step in an array."""

        def __init__(self) -> None:
            super().__init__()
            self.observation_space = spaces.Tuple([spaces.Discrete(2), spaces.Discrete(15)])
            self.action_space = spaces.MultiDiscrete([3, 1], start=[-1, 8])

        def reset(self, **settings: Any) -> Any:
            position, info = super().reset(**settings)
            return (1, position), info

        def step(self, action: Any) -> Any:
            assert action in self.action_space
            self.action_space, whole = spaces.Discrete(3, start=-1), self.action_space
            position, *rest = super().step(int(action[0]))
            self.action_space = whole
            return ((1, position), *rest)

    player = EpisodePlayer(Pair(), 3)
    assert (player.n_states, player.n_actions) == (31, 3)
    played = player.play(np.full((3, 31), RIGHT))
    np.testing.assert_array_equal(played.states, [15 + 12, 15 + 13, 30, 30])


@pytest.mark.parametrize(
    "bad",
    [np.zeros((3, 6), int), np.zeros((4, 5), int), np.full((4, 6), 3), np.full((4, 6), -1), "up"],
    ids=["steps", "states", "large", "negative", "text"],
)
def test_policies_that_do_not_fit_are_refused(bad: Any) -> None:
    env = Walk()
    with pytest.raises(ActionError, match="a policy is actions"):
        EpisodePlayer(env, 4).play(bad)
    assert env.seeds == []


def test_only_an_environment_is_played(unchecked: None) -> None:
    with pytest.raises(ParameterError, match="env must be one gymnasium"):
        EpisodePlayer("FrozenLake-v1", 4)
    with pytest.raises(ParameterError, match="horizon must be a whole number"):
        EpisodePlayer(Walk(), 0)


def test_an_observation_outside_the_space_is_refused() -> None:
    env = Walk()
    env.observation_space = spaces.Discrete(3, start=11)
    with pytest.raises(ObservationError, match="observation space Discrete"):
        EpisodePlayer(env, 4).play(np.full((4, 4), LEFT))


# -- rewards ----------------------------------------------------------------------------------


@pytest.mark.parametrize("pay", [0.5, -1.0, 2.0, float("nan"), 1 + 1e-12])
def test_rewards_are_zero_or_one(pay: float) -> None:
    player = EpisodePlayer(Walk(pay=pay), 2)
    with pytest.raises(OutcomeError, match=r"rewards must be 0 or 1, got .*binarize"):
        player.play(policy(RIGHT, RIGHT))
    assert player.last_return is None


@pytest.mark.parametrize("pay", [-1.01, 3.01, float("inf"), float("nan")])
def test_rewards_out_of_range_are_refused(pay: float) -> None:
    player = EpisodePlayer(Walk(pay=pay), 2, binarize=(-1, 3))
    with pytest.raises(OutcomeError, match=r"from -1 to 3, got .*make the range wider"):
        player.play(policy(RIGHT, RIGHT))


@pytest.mark.parametrize(
    "binarize", [(1, 0), (0, 0), (1, 2), (-2, -1), (0, float("inf")), (float("nan"), 1), 3, (1,)]
)
def test_ranges_without_zero_are_refused(binarize: Any, unchecked: None) -> None:
    with pytest.raises(ParameterError, match="binarize"):
        EpisodePlayer(Walk(), 2, binarize=binarize)


def test_binarized_rewards_keep_their_mean() -> None:
    n = 4000
    player = EpisodePlayer(Walk(ends=0, pay=2.5), n, binarize=(-1, 4), seed=3)
    played = player.play(np.full((n, 6), RIGHT))
    assert set(played.rewards) == {0.0, 1.0}
    # Bernoulli with mean (2.5 + 1) / 5, within four standard errors.
    assert abs(played.rewards.mean() - 0.7) < 4 * (0.7 * 0.3 / n) ** 0.5
    assert player.last_return == 2.5 * n
    again = EpisodePlayer(Walk(ends=0, pay=2.5), n, binarize=(-1, 4), seed=3)
    np.testing.assert_array_equal(again.play(np.full((n, 6), RIGHT)).rewards, played.rewards)


def test_the_ends_of_the_range_are_certain() -> None:
    rng = np.random.default_rng(0)
    scale = RewardScale((-2.0, 6.0))
    assert {scale.draw(6, rng) for _ in range(99)} == {1.0}
    assert {scale.draw(-2, rng) for _ in range(99)} == {0.0}


def test_after_the_end_rewards_have_the_mean_of_zero() -> None:
    n = 4000
    player = EpisodePlayer(Walk(), n, binarize=(-1, 3), seed=3)
    played = player.play(np.full((n, 6), RIGHT))
    after = played.rewards[2:]
    assert abs(after.mean() - 0.25) < 4 * (0.25 * 0.75 / len(after)) ** 0.5
    assert player.last_return == 2.0


# -- agents -----------------------------------------------------------------------------------


def test_the_agent_recognises_the_kind_of_map() -> None:
    maps = [["SFFF", "FHFH", "FFFH", "HFFG"], ["SFFH", "FHFF", "FFFF", "FHHG"]]
    models = [tabular_model(frozen_lake(desc), 50) for desc in maps]
    prior = mixts.MixturePrior(mixts.TabularMDP.from_means(mixts.MDP.stack(models), 30.0))
    for kind, desc in enumerate(maps):
        player = EpisodePlayer(frozen_lake(desc), 50, seed=kind)
        informed = mixts.MixTS(prior, seed=1)
        flat = mixts.MixTS(player.uniform_prior(), seed=1)
        values: dict[Any, list[float]] = {informed: [], flat: []}
        for agent, found in values.items():
            for _ in range(30):
                chosen = agent.act()
                agent.update(player.play(chosen))
                found.append(models[kind].value(chosen))
        assert informed.belief.weights[kind] > 0.99
        best = models[kind].value(models[kind].plan().policy)
        # After the map is known every policy is one of MDPs near the truth.
        assert np.mean(values[informed][5:]) > 0.8 * best
        assert np.mean(values[flat]) < 0.3 * best


def test_the_agent_plays_our_own_environment_through_both_bridges() -> None:
    river = mixts.RiverSwim(6, horizon=15)
    env = to_gymnasium(river)
    player = EpisodePlayer(env, 15, seed=4)
    family = river.prior.family
    # One more state than the river has: no episode ever enters it.
    reward, transition = np.zeros((2, 7, 2, 2)), np.zeros((2, 7, 2, 7))
    reward[:, :6], transition[:, :6, :, :6] = family.reward, family.transition
    reward[:, 6, :, 1] = transition[:, 6, :, 6] = 1.0
    prior = mixts.MixturePrior(mixts.TabularMDP(reward, transition, 15, 3), names=["left", "right"])
    agent = mixts.MixTS(prior, seed=2)
    tasks = set()
    for _ in range(12):
        played = player.play(agent.act())
        assert played.lengths is None
        assert (played.states < 6).all()
        agent.update(played)
        tasks.add(env.unwrapped.latent)
    (latent,) = tasks
    assert agent.belief.weights[latent] > 0.99


def test_a_prior_of_our_own_environment_gets_the_absorbing_state() -> None:
    """Our river through gymnasium: the same belief as of the same episode without the state."""
    river = mixts.RiverSwim(5, horizon=8)
    player = EpisodePlayer(to_gymnasium(river), 8, seed=1)
    prior = player.with_absorbing(river.prior)
    assert prior.names == ("left", "right")
    agent, plain = mixts.MixTS(prior, seed=1), river.prior.belief()
    trajectory = player.play(agent.act())
    agent.update(trajectory)
    plain.update(trajectory)
    np.testing.assert_array_equal(agent.belief.weights, plain.weights)
    assert (prior.family.transition[:, :5, :, 5] == 0).all()
    with pytest.raises(mixts.errors.ParameterError, match="5 states, 2 actions and horizon 8, got"):
        player.with_absorbing(mixts.RiverSwim(4, horizon=8).prior)
