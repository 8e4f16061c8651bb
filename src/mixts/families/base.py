"""Base classes of the conjugate families.

A family in one file consists of three classes:

- a :class:`Family`, the prior parameters of L components stacked on the first axis;
- a :class:`Statistics`, the summary of a task's history, which does not depend on the prior;
- a :class:`Posterior`, computed from the two.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from mixts._typing import Array, ArrayLike, Bool, Float, Int
from mixts.errors import ActionError, FormatError, ParameterError, StatisticsError
from mixts.families.choice import best_rows
from mixts.families.statistics import Statistics

if TYPE_CHECKING:
    from mixts.families.arms import ArmFamily
    from mixts.families.linear import LinearGaussian
    from mixts.families.rewards import RewardBelief
    from mixts.planning import MDP

FAMILIES: dict[str, type[Family]] = {}
"""Families by their name in files; a subclass registers itself."""


class Family(ABC):
    """Prior parameters of L components, stacked on the first axis; immutable.

    Everything that other layers need to know about a family is a method or property here, so that
    no other layer asks which family it has.

    Examples
    --------
    Priors, agents and environments take any family.

    >>> import mixts
    >>> family = mixts.PoissonArms(shape=[[4, 8]], rate=[[2, 2]])
    >>> isinstance(family, mixts.Family), family.n_components, family.n_arms
    (True, 1, 2)
    >>> family.parameter_means()
    array([[2., 4.]])
    """

    kind: ClassVar[str]
    """Name of the family in files."""
    array_names: ClassVar[tuple[str, ...]]
    """Names of the constructor's array arguments, which are attributes."""
    common_arrays: tuple[str, ...] = ()
    """Names of those that all components share: they have no axis of components."""
    statistics_type: ClassVar[type[Statistics]]
    """Class of the statistics of its tasks."""
    posterior_type: ClassVar[type[Posterior]]
    """Class of the posteriors of its tasks."""
    plans: ClassVar[bool] = False
    """Whether an action is a policy, and an observation a trajectory."""
    reward_range: ClassVar[tuple[float, float] | None] = None
    """Smallest and largest possible reward; None if rewards are unbounded."""
    noise_std: float | None = None
    """Standard deviation of Gaussian noise on rewards; None for other rewards. Where each task has
    its own, the typical one of each component."""
    link: ClassVar[str] = "identity"
    """Function of the mean reward that is linear in the parameters: "identity" or "logit"."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "kind" in cls.__dict__:
            FAMILIES[cls.kind] = cls

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make unpickled parameters read-only again."""
        self.__dict__.update(state)
        for array in self.arrays().values():
            array.flags.writeable = False

    # -- sizes and files ----------------------------------------------------------------------

    @property
    @abstractmethod
    def n_components(self) -> int:
        """Number of components, L."""

    @property
    def n_arms(self) -> int | None:
        """Number of arms; None where actions have features or are policies."""
        return None

    @property
    def as_arms(self) -> ArmFamily:
        """This family, if its actions are independent arms; any other raises `ParameterError`."""
        raise ParameterError(f"only families of arms can do this, got {self!r}")

    @property
    def n_features(self) -> int | None:
        """Number of features of an action; None where actions have no features."""
        return None

    @property
    @abstractmethod
    def statistics_shape(self) -> tuple[int, ...]:
        """``statistics.shape`` of its tasks: (n_arms,), (n_features,) or (n_states, n_actions)."""

    @property
    def support(self) -> str:
        """Possible rewards, in words."""
        return self.statistics_type.support

    @property
    def task_bytes(self) -> int:
        """Approximate memory of one task's posterior; simulation sizes its batches by it."""
        return 8 * self.n_components

    @property
    def common_noise(self) -> float | None:
        """Standard deviation of the Gaussian noise that all tasks share; None for other noise."""
        return self.noise_std if isinstance(self.noise_std, float) else None

    @property
    def row_bytes(self) -> int:
        """Bytes that each new action adds to a task's statistics; 0: their size is fixed."""
        return 0

    def arrays(self) -> dict[str, Array]:
        """Return the constructor's array arguments by name, as files store them."""
        return {name: getattr(self, name) for name in self.array_names}

    def settings(self) -> dict[str, Any]:
        """Return the constructor's other arguments by name: plain numbers and strings."""
        return {}

    def learning_settings(self) -> dict[str, Any]:
        """Return the keyword arguments of ``learn_prior`` that statistics do not show."""
        return {}

    @classmethod
    def restore(cls, settings: dict[str, Any], arrays: dict[str, Array]) -> Family:
        """Build the family from a file's settings and arrays, checked like any other.

        Parameters
        ----------
        settings, arrays
            As :meth:`settings` and :meth:`arrays` return them.

        Returns
        -------
        Family
            The family.
        """
        try:
            return cls(**arrays, **settings)
        except TypeError as error:
            raise FormatError(
                f"the file's parameters do not fit {cls.__name__}: {error}"
            ) from error

    # -- other families of the same kind ------------------------------------------------------

    def select(self, components: ArrayLike) -> Family:
        """Return the family of these components, in this order, repeats allowed.

        Parameters
        ----------
        components
            Indices of components.

        Returns
        -------
        Family
            The family of these components.
        """
        index, shared = np.asarray(components), self.common_arrays
        some = {k: v if k in shared else v[index] for k, v in self.arrays().items()}
        return self.restore(self.settings(), some)

    def append(self, other: Family) -> Family:
        """Return the components of this family followed by those of another of its kind.

        Parameters
        ----------
        other
            A family of the same kind and sizes.

        Returns
        -------
        Family
            The family of all components.
        """
        self._check_same_kind(other)
        joined, theirs = self.arrays(), other.arrays()
        for name in set(joined) - set(self.common_arrays):
            joined[name] = np.concatenate([joined[name], theirs[name]])
        return self.restore(self.settings(), joined)

    def mapped(self, matrix: Float[Array, "d d"]) -> Family:
        """Return the same prior for rows r of other coordinates, in which these are ``matrix @ r``.

        Parameters
        ----------
        matrix
            The matrix, (d, d).

        Returns
        -------
        Family
            The family in the other coordinates.
        """
        raise ParameterError(f"{self!r} has no features")

    @property
    def has_offset(self) -> bool:
        """Whether the last number of a feature row is an offset: its coefficient is always 1."""
        return False

    def with_offset(self) -> Family:
        """Return the same prior for rows with one more number, whose coefficient is known to be 1.

        Rewards then depend on ``a'theta + offset``: the offset is the part of an action's effect
        that is the same in all tasks.

        Returns
        -------
        Family
            The family with one more coefficient, the last one, without variance.
        """
        raise ParameterError(f"{self!r} has no features")

    def without_offset(self) -> Family:
        """Return the prior of the other coefficients: the inverse of :meth:`with_offset`.

        Returns
        -------
        Family
            The family without the last coefficient.
        """
        raise ParameterError(f"{self!r} has no features")

    @abstractmethod
    def collapse(self, weights: Float[Array, " L"]) -> Family:
        """Return one component that keeps the moments of the mixture with these weights.

        Parameters
        ----------
        weights
            Weights of the components, (L,).

        Returns
        -------
        Family
            A family of one component.
        """

    @abstractmethod
    def broaden(self, weights: Float[Array, " L"], factor: float) -> Family:
        """Return one broad component, for tasks unlike all components.

        For unbounded rewards its variances are about ``factor`` times those of the mixture.

        Parameters
        ----------
        weights
            Weights of the components, (L,).
        factor
            Factor of the variances.

        Returns
        -------
        Family
            A family of one component.
        """

    def _check_same_kind(self, other: Family) -> None:
        if type(other) is not type(self) or other.statistics_shape != self.statistics_shape:
            raise ParameterError(f"expected components like those of {self!r}, got {other!r}")

    # -- moments of the prior -----------------------------------------------------------------

    @abstractmethod
    def parameter_means(self) -> Float[Array, "L p"]:
        """Return the prior mean of every parameter under each component."""

    @abstractmethod
    def parameter_variances(self) -> Float[Array, "L p"]:
        """Return the prior variance of every parameter under each component."""

    @abstractmethod
    def parameter_quantiles(self, probability: float) -> Float[Array, "L p"]:
        """Return a prior quantile of every parameter under each component.

        Parameters
        ----------
        probability
            Probability of the quantile, between 0 and 1.

        Returns
        -------
        array
            Quantiles, (L, p).
        """

    def explain_mean(self, component: int, arm: int) -> str:
        """Say in words what the mean reward of an arm is made of.

        Parameters
        ----------
        component, arm
            Indices of the component and of the arm.

        Returns
        -------
        str
            The words; "" if there is nothing to say.
        """
        return ""

    # -- learning -----------------------------------------------------------------------------

    def empty_statistics(self, n_tasks: int | None) -> Statistics:
        """Return the statistics of tasks without observations.

        Parameters
        ----------
        n_tasks
            Number of tasks; None for one task without a task axis.

        Returns
        -------
        Statistics
            Empty statistics.
        """
        return self.statistics_type.empty(self.statistics_shape, n_tasks)

    def check_statistics(self, statistics: Any) -> None:
        """Raise ``StatisticsError`` unless the statistics are of this family's kind and shape.

        Parameters
        ----------
        statistics
            The statistics.
        """
        kind = self.statistics_type
        if type(statistics) is not kind or statistics.shape != self.statistics_shape:
            raise StatisticsError(
                f"{self!r} needs {kind.__name__} of shape {self.statistics_shape}, "
                f"got {statistics!r}"
            )

    def check_learnable(self, actions: Array) -> None:  # noqa: B027 - most can learn from any
        """Raise ``ActionError`` if rewards of an action could not be learned from.

        A service calls this before it offers the actions, since it can refuse no reward of an
        action that was shown.

        Parameters
        ----------
        actions
            Feature rows, (K, d).
        """

    def posterior(
        self, statistics: Statistics, log_weights: Float[Array, " L"], *, allow_dormant: bool = True
    ) -> Any:
        """Return the posteriors given statistics, which the result owns and changes.

        Parameters
        ----------
        statistics
            Statistics of the tasks.
        log_weights
            Log prior weights, (L,), which decide only which components may become dormant.
        allow_dormant
            False keeps every component's posterior up to date.

        Returns
        -------
        Posterior
            The posteriors of all components for each task.
        """
        self.check_statistics(statistics)
        return self.posterior_type(self, statistics, log_weights, allow_dormant=allow_dormant)

    def log_evidence(self, statistics: Statistics) -> Float[Array, "n L"]:
        """Return log p(history | s) of each task.

        Parameters
        ----------
        statistics
            Statistics of n tasks.

        Returns
        -------
        array
            Log evidence, (n, L); -inf where a component rules the history out.
        """
        uniform = np.full(self.n_components, -np.log(self.n_components))
        return self.posterior(statistics, uniform).log_evidence()

    # -- acting and simulating ----------------------------------------------------------------

    @abstractmethod
    def draw(self, rng: np.random.Generator, latent: Int[Array, " n"]) -> Float[Array, "n p"]:
        """Draw parameters from the prior of each given component.

        Parameters
        ----------
        rng
            Random generator.
        latent
            Component of each task.

        Returns
        -------
        array
            Parameters, (n, p).
        """

    @abstractmethod
    def mean_rewards(
        self, parameters: Float[Array, "... p"], actions: Array | None = None
    ) -> Float[Array, "... K"]:
        """Return the mean reward of every action under parameters, mu_theta(a).

        Parameters
        ----------
        parameters
            Parameters, on the last axis.
        actions
            Checked action sets, as ``action_sets`` returns them.

        Returns
        -------
        array
            Mean rewards; the last axis is the actions.
        """

    def best_action(
        self,
        rng: np.random.Generator,
        parameters: Float[Array, "m p"],
        actions: Array | None = None,
        mask: Bool[Array, "m K"] | None = None,
    ) -> Int[Array, "m ..."]:
        """Return argmax_a mu_theta(a) for each row of parameters, ties at random  [paper: Alg. 1].

        Parameters
        ----------
        rng
            Random generator.
        parameters
            Parameters, (m, p).
        actions
            Checked action sets, as ``action_sets`` returns them.
        mask
            Available actions, (m, K); None: all.

        Returns
        -------
        array
            Indices (m,), or policies of a family that plans.
        """
        return best_rows(rng, self.mean_rewards(parameters, actions), mask)

    @abstractmethod
    def outcomes(self, rng: np.random.Generator, means: Float[Array, " n"]) -> Float[Array, " n"]:
        """Draw a reward for each mean, with one random number per reward.

        Agents with the same stream then get comparable rewards.

        Parameters
        ----------
        rng
            Random generator.
        means
            Mean reward of each action taken, or what ``reward_parameters`` returns.

        Returns
        -------
        array
            Rewards, (n,).
        """

    def reward_parameters(
        self, parameters: Float[Array, "n p"], arms: Int[Array, " n"], means: Float[Array, " n"]
    ) -> Float[Array, "n ..."]:
        """Return what ``outcomes`` needs of each arm: its mean reward, if that is all.

        Parameters
        ----------
        parameters
            Parameters of n tasks, (n, p).
        arms
            The arm that each task takes, (n,).
        means
            Mean reward of that arm, (n,).

        Returns
        -------
        array
            Parameters of the reward of each task, (n, ...).
        """
        return means

    @abstractmethod
    def action_sets(self, actions: ArrayLike | None, n_rows: int) -> tuple[Array | None, int]:
        """Check the ``actions`` of ``act``; return the action sets and the number of actions.

        Parameters
        ----------
        actions
            Features, or None for arms and policies.
        n_rows
            Number of decisions.

        Returns
        -------
        tuple
            The action sets, or None, and the number of actions.
        """

    # -- for diagnostics; the defaults refuse ---------------------------------------------------

    def reward_moments(
        self, statistics: Statistics, actions: Array, latent: Int[Array, " n"] | None = None
    ) -> tuple[Array, Array]:
        """Return posterior mean and variance of the mean reward of some actions of each task.

        Parameters
        ----------
        statistics
            Statistics of n tasks.
        actions
            For each task m arms, (n, m), or m feature rows, (n, m, d).
        latent
            The one component of each task; None for all components.

        Returns
        -------
        mean, variance
            (n, m, L) each, or (n, m) with ``latent``.
        """
        if latent is None:
            return self._reward_moments(statistics, actions)
        mean, variance = np.empty(actions.shape[:2]), np.empty(actions.shape[:2])
        # Only the posteriors of the given components are computed.
        for s in np.unique(latent):
            rows = np.flatnonzero(latent == s)
            one = self.select([s])
            found = one._reward_moments(statistics[rows], actions[rows])
            mean[rows], variance[rows] = found[0][..., 0], found[1][..., 0]
        return mean, variance

    def _reward_moments(self, statistics: Statistics, actions: Array) -> tuple[Array, Array]:
        raise ParameterError(f"{self!r} has no single actions: its actions are policies")

    def to_linear(self) -> LinearGaussian:
        """Return the same prior as that of a linear bandit with Gaussian noise."""
        raise ParameterError(f"{self!r} is not a linear bandit with Gaussian noise")

    def mdp(self, parameters: ArrayLike) -> MDP:
        """Return the MDPs that parameters describe, checked and copied.

        Parameters
        ----------
        parameters
            Parameters, (..., p).

        Returns
        -------
        MDP
            The MDPs, a batch of shape (...).
        """
        raise ParameterError(f"the parameters of {self!r} describe no MDP")


class Waiting(NamedTuple):
    """Decisions whose rewards have not come."""

    tasks: Int[Array, " w"]
    """Task of each decision."""
    actions: Array
    """Arm of each, (w,), or features, (w, d)."""

    def among(self, tasks: Int[Array, " n"]) -> Waiting:
        """Return the decisions of these tasks, sorted and distinct; a task becomes its position."""
        asked = np.isin(self.tasks, tasks)
        return Waiting(np.searchsorted(tasks, self.tasks[asked]), self.actions[asked])


class Posterior(ABC):
    """Posteriors of all components for each task of a batch; owns the tasks' statistics.

    Every array has the task axis first; the belief removes it for one task.
    """

    relative_evidence: Float[Array, "n L"]
    """log p(history | s) up to a constant per task; -inf where the component is dormant."""

    def __init__(
        self, prior: Any, statistics: Any, log_weights: Float[Array, " L"], *, allow_dormant: bool
    ) -> None:
        self.prior = prior
        """The family whose posteriors these are."""
        self.statistics = statistics
        """Checked statistics of the tasks."""

    def observations(self, actions: Any, outcomes: Any) -> tuple[Array, ...]:
        """Return checked arrays of m observations for ``update``."""
        return self.statistics.observations(actions, outcomes)

    @abstractmethod
    def update(self, tasks: Int[Array, " m"], observed: tuple[Array, ...]) -> None:
        """Learn from observations, all or none; the arrays come from ``observations``."""

    @abstractmethod
    def log_evidence(self) -> Float[Array, "n L"]:
        """Return log p(history | s), exact for every component, with all constants."""

    def evidence_error(self) -> Float[Array, "n L"]:
        """Return the standard error of ``log_evidence``: 0 where it has a closed form."""
        return np.zeros((len(self.statistics), self.prior.n_components))

    @abstractmethod
    def sample(
        self, rng: np.random.Generator, tasks: Int[Array, " m"], latent: Int[Array, " m"]
    ) -> Float[Array, "m p"]:
        """Draw parameters theta ~ P_t(. | s) for each pair of a task and a component."""

    def draw_best(
        self,
        rng: np.random.Generator,
        tasks: Int[Array, " m"],
        latent: Int[Array, " m"],
        actions: Array | None,
        mask: Bool[Array, "m K"] | None,
    ) -> Int[Array, "m ..."]:
        """Draw parameters as ``sample`` does, and return the best action under them."""
        theta = self.sample(rng, tasks, latent)
        best: Array = self.prior.best_action(rng, theta, actions, mask)
        return best

    def decide(
        self,
        rng: np.random.Generator,
        log_weights: Float[Array, " L"],
        tasks: Int[Array, " m"],
        mask: Bool[Array, "m K"] | None,
        actions: Array | None = None,
    ) -> tuple[Int[Array, " m"], Int[Array, " m"]] | None:
        """Return best actions and components of one draw each; None: draw all parameters."""
        return None

    def quick(self) -> Any:
        """Return the core object that decides and learns for one task; None if there is none.

        It works on the arrays that the posterior has now: a posterior whose statistics are replaced
        makes a new one. It has

        - ``act_one(rng, actions)``, which draws a latent state and returns the best action or
          policy; -1 where the general path must decide, or refuse the actions;
        - ``last_latent``, the state that ``act_one`` drew;
        - ``update_one(action, outcome) -> bool``, which learns one reward or trajectory; False,
          and nothing learned, where the general path must learn or refuse it.

        ``rng`` is a numpy ``Generator``; the other arguments are whatever the user gave.
        """
        return None

    def prepare(self, tasks: Int[Array, " m"], latent: Int[Array, " m"]) -> None:
        """Make sure that these pairs can be sampled even where the component is dormant."""
        return None

    @abstractmethod
    def component_means(self, tasks: Int[Array, " m"]) -> Float[Array, "m L p"]:
        """Return E[theta | history, s]."""

    @abstractmethod
    def component_covariances(self, tasks: Int[Array, " m"]) -> Float[Array, "m L p p"]:
        """Return Cov[theta | history, s]."""

    def mean_rewards(
        self, tasks: Int[Array, " m"], weights: Float[Array, "m L"], actions: Array | None
    ) -> Float[Array, "m ..."]:
        """Return the mean reward of each action under the mixture with these weights.

        Where it is linear in the parameters, it is that of their mean.
        """
        theta = np.einsum("ml,mlp->mp", weights, self.component_means(tasks))
        means: Array = self.prior.mean_rewards(theta, actions)
        return means

    @abstractmethod
    def family(self, task: int) -> Family:
        """Return the posterior of one task as a prior."""

    def rewards(
        self,
        tasks: Int[Array, " m"],
        weights: Float[Array, "m L"],
        actions: Array | None,
        waiting: Waiting | None = None,
    ) -> RewardBelief:
        """Return the belief about the mean rewards of the actions of each decision.

        Parameters
        ----------
        tasks
            Task of each of m decisions.
        weights
            Weights of the components for each decision.
        actions
            Checked action sets.
        waiting
            Decisions whose rewards have not come. The result is the belief as if their expected
            rewards had come.
        """
        raise ActionError(
            f"an action of {self.prior!r}, such as a policy, is one of too many to give each a "
            "probability: use act(), or draw actions with it and count"
        )

    @abstractmethod
    def add_tasks(self, n: int) -> None:
        """Append tasks without observations."""
