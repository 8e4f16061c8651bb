"""
RiverSwim: which way does the river flow?
=========================================

A swimmer in a chain of ten states swims left or right. With the current it is easy and pays next
to nothing; the large reward is at the end against the current. Thompson sampling works for such
Markov decision processes, too: an action is the policy of one episode. PSRL learns the whole
river from nothing. MixTS knows two rivers, and only has to find out which one it is in.
"""

from functools import partial

import matplotlib.pyplot as plt
import numpy as np

import mixts

river = mixts.RiverSwim(n_states=10, horizon=20)
print(river.prior)

# %%
# All agents are Thompson sampling with different priors. "UniTS" has the two rivers averaged into
# one component. "PSRL, neighbours" knows that a stroke moves by one state at most. The Oracle is
# told the current. "Swim right" is the fixed choice: it is right in half of the rivers.

size = (10, 2, 20, river.start_state)
neighbours = (river.prior.family.transition > 0).any(axis=0)


class SwimRight:
    """Swim to the right, always."""

    def __init__(self, n_tasks, seed):
        self.policies = np.ones((n_tasks, 20, 10), int)

    def act(self, actions=None):
        """Return the same policies, whatever happened."""
        return self.policies

    def update(self, *happened):
        """Ignore what happened."""


agents = {
    "swim right": SwimRight,
    "PSRL": mixts.MixturePrior(mixts.TabularMDP.uniform(*size)),
    "PSRL, neighbours": mixts.MixturePrior(mixts.TabularMDP.uniform(*size, neighbours)),
    "UniTS": river.prior.collapse(),
    "MixTS": river.prior,
    "Oracle": partial(mixts.Oracle, river.prior),
}
results = mixts.simulate(agents, river, n_rounds=300, n_runs=40, seed=1, engine=1)
print(results)

# %%
# MixTS knows the current after one episode. The logarithmic axis shows how far apart the agents
# are. A fixed direction is good in one half of the rivers and hopeless in the other half.

fig, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
mixts.plot(results, ax, log=True, rounds="episode", bottom=0.1)
ax.set_xlabel("episode", fontsize=10)
ax.set_ylabel("reward lost so far (± 1 standard error)", fontsize=10)
ax.spines[["top", "right"]].set_visible(False)
plt.show()
