"""
FrozenLake: is it the map you know?
===================================

gymnasium's FrozenLake is a slippery grid with holes. In every run the holes are those of the
usual map or of its mirror image, and the agent does not know which. A policy for the wrong map
never reaches the goal. MixTS knows the two kinds of map, and recognises the map while it crosses.
"""

import gymnasium
import matplotlib.pyplot as plt
import numpy as np

import mixts
from mixts.bridges.gym import EpisodePlayer, tabular_model

usual = ["SFFF", "FHFH", "FFFH", "HFFG"]  # start, frozen, hole, goal
maps = [usual, ["".join(column) for column in zip(*usual, strict=True)]]
HORIZON = 50


def lake(kind):
    """Return a slippery lake with one of the maps."""
    return gymnasium.make("FrozenLake-v1", desc=maps[kind], is_slippery=True)


# %%
# ``tabular_model`` reads the transition probabilities of each map. We trust each map as much as
# 30 observations of every step.

models = mixts.MDP.stack([tabular_model(lake(kind), HORIZON) for kind in range(2)])
kinds = mixts.TabularMDP.from_means(models, 30.0)
prior = mixts.MixturePrior(kinds, names=["usual", "mirrored"])
best = models.plan().policy
print("chance to reach the goal; rows: best policy for a map, columns: the map")
print(np.array([models.value(policy) for policy in best]).round(2))

# %%
# Each agent plays 10 runs of 60 episodes, half of them on each map. PSRL knows neither map: it
# believes that any step may lead anywhere. The fixed choice is the best policy for the usual map.

n_episodes = 60
true_kinds = np.arange(10) % 2


def play(prior, kind, seed):
    """Return the chance of reaching the goal with the policy of each episode."""
    player = EpisodePlayer(lake(kind), HORIZON, seed=seed)
    agent = mixts.MixTS(prior, seed=seed)
    policies = []
    for _ in range(n_episodes):
        policies.append(agent.act())
        agent.update(player.play(policies[-1]))
    return models[kind].value(np.array(policies))


flat = EpisodePlayer(lake(0), HORIZON).uniform_prior()
chance = {
    name: np.array([play(known, kind, seed) for seed, kind in enumerate(true_kinds)])
    for name, known in (("MixTS", prior), ("UniTS", prior.collapse()), ("PSRL", flat))
}
chance["fixed policy"] = np.tile(models.value(best[0])[true_kinds][:, None], n_episodes)
limit = models.value(best).max()
for name, reached in chance.items():
    print(f"{name:18} reaches the goal in {reached.mean():.0%} of {n_episodes} episodes")

# %%
# MixTS recognises the map within a few episodes, but stays a little below the limit: it still
# draws its policies at random. PSRL would need many more episodes. The grey band is wide because
# the fixed policy is either the best or useless.

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
colors = ["#0072B2", "#009E73", "#D55E00", "#767676"]
episodes = np.arange(1, n_episodes + 1)
for color, (name, reached) in zip(colors, chance.items(), strict=True):
    mean, error = 100 * reached.mean(axis=0), 100 * reached.std(axis=0, ddof=1) / 10**0.5
    ax.plot(episodes, mean, color=color, label=name, linewidth=2)
    ax.fill_between(episodes, mean - error, mean + error, color=color, alpha=0.2)
ax.axhline(100 * limit, color="#333333", linestyle=":", label="map known")
ax.set(xlabel="episode", ylabel="chance to reach the goal, in %\n(± 1 standard error)")
ax.set(xlim=(1, n_episodes), ylim=(0, 60))
ax.spines[["top", "right"]].set_visible(False)
fig.legend(frameon=False, loc="outside lower center", ncols=5, fontsize=9, columnspacing=1.2)
plt.show()
