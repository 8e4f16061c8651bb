"""What a conjugate family is: parameters of L components, statistics of tasks, posteriors of both.

A family in one file is three things:

- a :class:`Family`, the prior parameters of L components stacked on the first axis;
- a :class:`Statistics`, what a task's history is reduced to, which knows nothing of the mixture;
- a :class:`Posterior`, the pure function of the two, with its fast incremental path.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from mixts._typing import Array, ArrayLike, Bool, Float, Int
from mixts.errors import FormatError
from mixts.families.choice import best_rows
from mixts.families.statistics import Statistics

FAMILIES: dict[str, type[Family]] = {}
"""Every family by the name that files carry; a subclass registers itself."""


class Family(ABC):
    """Prior parameters of L components, stacked on the first axis; immutable."""

    kind: ClassVar[str]
    """The name of the family in files."""
    statistics_type: ClassVar[type[Statistics]]
    plans: ClassVar[bool] = False
    """Whether an action is a policy, and what is observed a trajectory."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "kind" in cls.__dict__:
            FAMILIES[cls.kind] = cls

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Unpickled parameters are read-only again; loops compiled for such arrays serve them."""
        self.__dict__.update(state)
        for array in self.arrays().values():
            array.flags.writeable = False

    # -- what it is ---------------------------------------------------------------------------

    @property
    @abstractmethod
    def n_components(self) -> int:
        """L."""

    @property
    def n_arms(self) -> int | None:
        """The number of arms, or None where actions are given at each decision."""
        return None

    @property
    def task_bytes(self) -> int:
        """About how much memory the posterior of one task takes; simulation sizes batches by it."""
        return 8 * self.n_components

    @abstractmethod
    def arrays(self) -> dict[str, Array]:
        """The constructor's array arguments by name: what a file stores."""

    def settings(self) -> dict[str, Any]:
        """The constructor's other arguments by name: plain numbers and strings."""
        return {}

    @classmethod
    def restore(cls, settings: dict[str, Any], arrays: dict[str, Array]) -> Family:
        """The family of a file's header and arrays, checked like any other."""
        try:
            return cls(**arrays, **settings)
        except TypeError as error:
            raise FormatError(
                f"the file's parameters do not fit {cls.__name__}: {error}"
            ) from error

    def select(self, components: ArrayLike) -> Family:
        """The family of these components, in this order, repeats allowed."""
        index = np.asarray(components)
        return self.restore(self.settings(), {k: v[index] for k, v in self.arrays().items()})

    # -- learning -----------------------------------------------------------------------------

    @abstractmethod
    def observations(self, actions: Any, outcomes: Any) -> tuple[Array, ...]:
        """What ``update`` was given as arrays of m observations; a single one becomes m = 1."""

    @abstractmethod
    def empty_statistics(self, n_tasks: int | None) -> Statistics:
        """The statistics of tasks with no history; ``None``: one task, no task axis."""

    def absorb(
        self, statistics: Statistics, tasks: Int[Array, " m"], observed: tuple[Array, ...]
    ) -> None:
        """Change statistics by observations, all or none, where no belief is needed.

        One observation after the other: the same observations in the same order give the same bits,
        in however many calls.
        """
        uniform = np.full(self.n_components, -np.log(self.n_components))
        self.posterior(statistics, uniform).update(tasks, observed)

    @abstractmethod
    def posterior(
        self, statistics: Statistics, log_weights: Float[Array, " L"], *, allow_dormant: bool = True
    ) -> Posterior:
        """The posteriors given statistics, which the result owns and changes.

        ``log_weights`` are the log prior weights, which only serve to decide which components may
        sleep; ``allow_dormant=False`` keeps every component's posterior up to date.
        """

    @abstractmethod
    def collapse(self, weights: Float[Array, " L"]) -> Family:
        """One component that keeps the mixture's moments."""

    # -- acting and simulating ----------------------------------------------------------------

    @abstractmethod
    def draw(self, rng: np.random.Generator, latent: Int[Array, " n"]) -> Float[Array, "n p"]:
        """Parameters from the prior of each given component."""

    @abstractmethod
    def mean_rewards(
        self, parameters: Float[Array, "... p"], actions: Array | None = None
    ) -> Float[Array, "... K"]:
        """The mean reward of every action under parameters, mu_theta(a)."""

    def best_action(
        self,
        rng: np.random.Generator,
        parameters: Float[Array, "m p"],
        actions: Array | None = None,
        mask: Bool[Array, "m K"] | None = None,
    ) -> Int[Array, "m ..."]:
        """argmax_a mu_theta(a) for each row of parameters, ties at random  [paper: Alg. 1].

        An index, or where the family plans, a policy.
        """
        return best_rows(rng, self.mean_rewards(parameters, actions), mask)

    @abstractmethod
    def outcomes(self, rng: np.random.Generator, means: Float[Array, " n"]) -> Float[Array, " n"]:
        """A reward for each given mean; the same stream gives every agent the same luck."""

    @abstractmethod
    def action_sets(self, actions: ArrayLike | None, n_rows: int) -> tuple[Array | None, int]:
        """Check what ``act`` was given; the action sets and how many actions there are."""


class Posterior(ABC):
    """The posteriors of all components for each of a batch of tasks; owns the tasks' statistics.

    Every array has the task axis first; whether there is one task or many is the belief's business.
    """

    statistics: Statistics
    relative: Float[Array, "n L"]
    """log p(history | s) up to a constant per task; -inf where the component sleeps."""

    @abstractmethod
    def update(self, tasks: Int[Array, " m"], observed: tuple[Array, ...]) -> None:
        """Absorb observations, all or none; the arrays come from ``Family.observations``."""

    @abstractmethod
    def log_evidence(self) -> Float[Array, "n L"]:
        """log p(history | s), exact for every component, with all constants."""

    @abstractmethod
    def sample(
        self, rng: np.random.Generator, tasks: Int[Array, " m"], latent: Int[Array, " m"]
    ) -> Float[Array, "m p"]:
        """Parameters theta ~ P_t(. | s) for each pair of a task and a component."""

    def prepare(self, tasks: Int[Array, " m"], latent: Int[Array, " m"]) -> None:
        """Make sure that these pairs can be sampled even where the component sleeps."""
        return None

    @abstractmethod
    def component_means(self, tasks: Int[Array, " m"]) -> Float[Array, "m L p"]:
        """E[theta | history, s]."""

    @abstractmethod
    def component_covariances(self, tasks: Int[Array, " m"]) -> Float[Array, "m L p p"]:
        """Cov[theta | history, s]."""

    @abstractmethod
    def family(self, task: int) -> Family:
        """The posterior of one task as a prior: today's posterior is tomorrow's prior."""

    @abstractmethod
    def best_action_probabilities(
        self,
        rng: np.random.Generator,
        tasks: Int[Array, " m"],
        weights: Float[Array, "m L"],
        actions: Array | None,
        mask: Bool[Array, "m K"],
        n_samples: int,
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        """P(action is best) under the mixture and the standard error of each number."""

    @abstractmethod
    def add_tasks(self, n: int) -> None:
        """Append tasks with no history."""
