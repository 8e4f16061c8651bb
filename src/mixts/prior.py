"""The mixture prior: L latent states, each with a distribution over model parameters."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from mixts import _checks
from mixts._catalogues import ArmCatalogue
from mixts._files import pack_bundle, read_content, unpack_bundle, write_bundle
from mixts._tables import described_rows
from mixts._typing import Array, ArrayLike, Bool, Float, Int
from mixts.belief import Belief
from mixts.errors import ActionError, FormatError, MixtsError, ParameterError, StatisticsError
from mixts.families.base import FAMILIES, Family
from mixts.families.population import arm_population, like_arms
from mixts.families.statistics import Statistics
from mixts.features import Features
from mixts.origin import Origin

__all__ = ["MixturePrior"]

_ARM_PRIOR = "arm_prior."
"""What the names of the arm prior's arrays begin with, in files."""


_KNOWN = "origin.known"
"""Name of the array of the origin, in files."""


def _of_arm_prior(name: str) -> bool:
    return name.startswith(_ARM_PRIOR)


def _check_arm_prior(arm_prior: Any, family: Family) -> None:
    same = isinstance(arm_prior, Family) and arm_prior.kind == family.kind
    same = same and arm_prior.settings() == family.settings()
    if not same or (arm_prior.n_components, arm_prior.n_arms) != (family.n_components, 1):
        raise ParameterError(
            f"arm_prior must be one arm like those of {family!r}, for every component, "
            f"got {arm_prior!r}"
        )


def _mean_guess(mean: Any, family: Family) -> float:
    level = float(_checks.numbers(mean, "mean must be a number", ParameterError))
    low, high = family.reward_range or (-np.inf, np.inf)
    if not low < level < high or not np.isfinite(level):
        raise ParameterError(
            f"mean must be a mean reward between {low:g} and {high:g}, got {mean!r}"
        )
    return level


class MixturePrior:
    """Mixture prior P_0: weights of L latent states, and a prior given each  [paper: Sec. 2].

    A prior is immutable: its methods return new priors.

    Parameters
    ----------
    family
        The prior parameters of the L components.
    weights
        Weights of the components, (L,), which sum to one; uniform if None.
    names
        Names of the components.
    arm_names
        Names of the arms, by which updates may refer to them.
    features
        Meaning of the numbers in a row of a linear family, a :class:`mixts.Features`; then actions
        may be described by names, as ``{"price": 3.2, "brand": "acme"}``.
    descriptions
        A sentence about each component, as ``mixts fit`` writes them; the dashboard shows them.
    arm_prior
        Distribution of a new arm's parameters under each component: a family of the same type with
        L components and one arm. Learned priors have one; None derives it from the arms.
    kinds
        Name of the kind of task that each component describes. Several components may describe one
        kind, as in a prior that joins mixtures. None: each component is a kind of its own.
    repeatable
        Whether an action may be taken again in a task. False for jokes, articles or coupons, which
        a task sees at most once: agents then never take an arm twice, and explore only for what a
        reward says about other actions, see :class:`mixts.MixIDS`.
    origin
        How the prior was learned, a :class:`mixts.origin.Origin`; None if it was not.

    Examples
    --------
    >>> import mixts
    >>> family = mixts.BernoulliArms(alpha=[[8, 2], [2, 8]], beta=[[2, 8], [8, 2]])
    >>> prior = mixts.MixturePrior(family, weights=[0.7, 0.3], names=["sporty", "homebody"])
    >>> prior
    MixturePrior of BernoulliArms(2 components, 2 arms)
      0: weight 0.7  sporty
      1: weight 0.3  homebody
    >>> prior.n_components
    2
    """

    def __init__(
        self,
        family: Family,
        weights: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        arm_names: Sequence[str] | None = None,
        features: Features | None = None,
        *,
        descriptions: Sequence[str] | None = None,
        arm_prior: Family | None = None,
        kinds: Sequence[str] | None = None,
        repeatable: bool = True,
        origin: Origin | None = None,
    ) -> None:
        if not isinstance(family, Family):
            raise ParameterError(f"family must be a mixts family, got {type(family).__name__}")
        self.family = family
        self.weights: Float[Array, " L"] = _checks.weight_vector(weights, family.n_components)
        self.names = _checks.name_list(names, family.n_components, "names")
        if arm_names is not None and family.n_arms is None:
            raise ParameterError(f"arm_names need a family with arms, got {family!r}")
        self.arms = ArmCatalogue.of(arm_names, family.n_arms or 0)
        """Names of the arms and their marks: ``arms.retired`` and ``arms.new`` are true for each
        retired arm and for each arm that was added and has not been learned from data since."""
        self.arm_names = self.arms.names
        self.features = _checked_features(features, family)
        self.descriptions = _checked_texts(
            descriptions, family.n_components, "descriptions", "sentences"
        )
        self.kinds = _checked_texts(kinds, family.n_components, "kinds", "names of kinds")
        self.repeatable = _checked_repeatable(repeatable, family)
        if arm_prior is not None:
            _check_arm_prior(arm_prior, family)
        self._arm_prior = arm_prior
        if origin is not None:
            if not isinstance(origin, Origin):
                raise ParameterError(f"origin must be a mixts.origin.Origin, got {origin!r}")
            origin.check(family.n_components, family.n_arms)
        self.origin = origin
        with np.errstate(divide="ignore"):
            self.log_weights: Float[Array, " L"] = np.log(self.weights)
        self.log_weights.flags.writeable = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make unpickled weights read-only again."""
        self.__dict__.update(state)
        self.weights.flags.writeable = self.log_weights.flags.writeable = False

    @property
    def n_components(self) -> int:
        """Number of components, L."""
        return self.family.n_components

    def __repr__(self) -> str:
        lines = [f"MixturePrior of {self.family!r}"]
        shown = min(self.n_components, 8)
        for s in range(shown):
            name = f"  {self.names[s]}" if self.names else ""
            lines.append(f"  {s}: weight {self.weights[s]:.4g}{name}")
        if shown < self.n_components:
            lines.append(f"  ... and {self.n_components - shown} more")
        if self.arms.has_retired:
            lines.append(f"  retired arms: {self.arms.labels(self.arms.retired)}")
        if self.arms.new.any():
            lines.append(f"  new arms: {self.arms.labels(self.arms.new)}")
        if not self.repeatable:
            lines.append("  an action is taken at most once in a task")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from mixts._html import prior_html

        return prior_html(self)

    # -- beliefs ------------------------------------------------------------------------------

    def belief(self, n_tasks: int | None = None) -> Belief:
        """Return the belief about tasks without observations.

        Parameters
        ----------
        n_tasks
            Number of tasks; None for one task without a task axis.

        Returns
        -------
        Belief
            The belief.

        Examples
        --------
        >>> import mixts
        >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
        >>> belief = prior.belief()
        >>> belief.update([0, 0, 1], [1, 1, 0])
        >>> belief.weights.round(2)
        array([0.98, 0.02])
        """
        return Belief(self, self.family.empty_statistics(n_tasks))

    def condition(self, statistics: Statistics) -> Belief:
        """Return the belief about tasks with these statistics, which stay unchanged.

        Parameters
        ----------
        statistics
            Statistics of the tasks' histories, as ``belief.statistics`` returns them.

        Returns
        -------
        Belief
            The belief; updates do not change the statistics that were given.

        Examples
        --------
        >>> import mixts
        >>> from mixts.families import BernoulliStatistics
        >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
        >>> tasks = BernoulliStatistics(successes=[[2, 0], [0, 3]], failures=[[0, 1], [1, 0]])
        >>> prior.condition(tasks).weights.round(2)
        array([[0.98, 0.02],
               [0.01, 0.99]])
        """
        if not isinstance(statistics, Statistics):
            raise StatisticsError(f"expected the statistics of tasks, got {statistics!r}")
        return Belief(self, statistics, shared=True)

    def draw(self, rng: np.random.Generator, n: int) -> tuple[Int[Array, " n"], Array]:
        """Draw latent states and parameters of tasks  [paper: Sec. 2].

        Parameters
        ----------
        rng
            Random generator.
        n
            Number of tasks.

        Returns
        -------
        tuple of arrays
            Latent states, (n,), and parameters, (n, p).

        Examples
        --------
        >>> import numpy as np
        >>> import mixts
        >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
        >>> latent, means = prior.draw(np.random.default_rng(1), 4)
        >>> latent.shape, means.shape
        ((4,), (4, 2))
        """
        if not isinstance(rng, np.random.Generator):
            raise ParameterError(f"rng must be a numpy.random.Generator, got {rng!r}")
        latent = rng.choice(self.n_components, size=_checks.count(n, "n", least=0), p=self.weights)
        return latent, self.family.draw(rng, latent)

    # -- other priors -------------------------------------------------------------------------

    def collapse(self) -> MixturePrior:
        """Return one component with the mixture's moments: the prior of UniTS  [paper: Sec. 6.2].

        Linear: mean and full covariance of the mixture. Arms: each arm's mean and variance; the
        correlation between arms is lost (``family.to_linear()`` keeps it for Gaussian arms).

        Returns
        -------
        MixturePrior
            A prior with one component.

        Examples
        --------
        >>> import mixts
        >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
        >>> one = prior.collapse()
        >>> one.n_components, one.family.parameter_means().round(2)
        (1, array([[0.5, 0.5]]))
        """
        one = None if self._arm_prior is None else self._arm_prior.collapse(self.weights)
        family = self.family.collapse(self.weights)
        return self.replace(
            family=family, weights=None, names=None, descriptions=None, arm_prior=one, kinds=None,
            origin=None if self.origin is None else self.origin.collapse(),
        )  # fmt: skip

    def select(self, components: ArrayLike) -> MixturePrior:
        """Return a prior of some components, their weights rescaled to sum to one.

        Parameters
        ----------
        components
            Component indices; with repeats, names are dropped. Descriptions stay: they compare a
            component with the tasks that the prior was learned from.

        Returns
        -------
        MixturePrior
            A prior of these components.
        """
        expected = "components must be a list of component indices"
        index = _checks.integers(components, expected, ParameterError)
        if index.ndim != 1 or not len(index):
            raise ParameterError(f"{expected}, got {components!r}")
        if index.min() < 0 or index.max() >= self.n_components:
            raise ParameterError(
                f"components are numbered 0 to {self.n_components - 1}, got {index}"
            )
        weights = self.weights[index]
        if weights.sum() == 0:
            raise ParameterError(f"the selected components have no weight: {index}")
        names = [self.names[i] for i in index] if self.names else None
        names = names if names and len(set(names)) == len(names) else None
        texts = [self.descriptions[i] for i in index] if self.descriptions else None
        kinds = [self.kinds[i] for i in index] if self.kinds else None
        some = None if self._arm_prior is None else self._arm_prior.select(index)
        return self.replace(
            family=self.family.select(index), weights=weights / weights.sum(), names=names,
            descriptions=texts, arm_prior=some, kinds=kinds,
            origin=None if self.origin is None else self.origin.select(index),
        )  # fmt: skip

    def append(self, family: Family, weight: float, name: str | None = None) -> MixturePrior:
        """Return a prior with one more component, the last one.

        Parameters
        ----------
        family
            The component, a family of one component.
        weight
            Its weight, between 0 and 1; the other weights are rescaled.
        name
            Its name, if the components have names; also the name of its kind.

        Returns
        -------
        MixturePrior
            A prior with L + 1 components.
        """
        weights = np.append(self.weights * (1 - weight), weight)
        names = None if self.names is None else [*self.names, str(name)]
        more = None if self._arm_prior is None else self._arm_prior.append(arm_population(family))
        joined = self.family.append(family)
        kinds = None if self.kinds is None else [*self.kinds, name or "other"]
        return self.replace(
            family=joined, weights=weights / weights.sum(), names=names, descriptions=None,
            arm_prior=more, kinds=kinds,
            origin=None if self.origin is None else self.origin.append(),
        )  # fmt: skip

    # -- kinds --------------------------------------------------------------------------------

    @property
    def kind_names(self) -> tuple[str, ...]:
        """Name of each kind, in the order of the components that come first."""
        return tuple(dict.fromkeys(self._kind_of_each))

    @property
    def kind_indices(self) -> tuple[int, ...]:
        """Index into ``kind_names`` of the kind that each component describes."""
        names = {name: g for g, name in enumerate(self.kind_names)}
        return tuple(names[name] for name in self._kind_of_each)

    @property
    def _kind_of_each(self) -> Sequence[str]:
        return self.kinds or self.names or [f"kind {s + 1}" for s in range(self.n_components)]

    def sum_by_kind(self, values: Float[Array, "*n L"]) -> Float[Array, "*n G"]:
        """Sum values of components, such as their weights, over the components of each kind.

        Parameters
        ----------
        values
            A value for each component, (..., L).

        Returns
        -------
        array
            A value for each of G kinds, (..., G).
        """
        if self.kinds is None:
            return values
        return np.asarray(values @ np.eye(len(self.kind_names))[list(self.kind_indices)])

    def by_kind(self) -> MixturePrior:
        """Return one component for each kind, with the weight and the moments of its components.

        It is for reading: agents should start from the prior itself, which is more exact.
        """
        if self.kinds is None:
            return self
        index = np.array(self.kind_indices)
        components = [np.flatnonzero(index == g) for g in range(len(self.kind_names))]
        found = []
        for own in components:
            weights = self.weights[own]
            if len(own) == 1 or weights.sum() == 0:
                found.append(self.family.select(own))
            else:
                found.append(self.family.select(own).collapse(weights / weights.sum()))
        weights = self.sum_by_kind(self.weights)
        texts = self.descriptions and [self.descriptions[own[0]] for own in components]
        return self.replace(
            family=reduce(Family.append, found), weights=weights / weights.sum(),
            names=self.kind_names, descriptions=texts, arm_prior=None, kinds=None,
        )  # fmt: skip

    # -- arms ---------------------------------------------------------------------------------

    @property
    def arm_prior(self) -> Family | None:
        """Distribution of a new arm's parameters under each component; None without arms.

        A family with L components and one arm. A learned prior knows it from its tasks; for other
        priors it has the mean of the arms that are not new, and their variance.
        """
        if self._arm_prior is not None or self.family.n_arms is None:
            return self._arm_prior
        seen = np.flatnonzero(~self.arms.new)
        return arm_population(self.family.as_arms.arms(seen) if len(seen) else self.family)

    def add_arms(
        self,
        arms: Sequence[str] | int,
        *,
        like: str | int | None = None,
        mean: float | None = None,
    ) -> MixturePrior:
        """Return a prior with new arms that have no data yet; their parameters are ``arm_prior``'s.

        The new arms are marked in ``arms.new`` until a prior is learned from their data.

        Parameters
        ----------
        arms
            Names of the new arms, or their number if the arms have no names.
        like
            An arm that the new arms resemble: they get its mean under every component, with the
            variance of any new arm.
        mean
            A guess of the new arms' mean reward, the same under every component.

        Returns
        -------
        MixturePrior
            A prior with the new arms after the others.

        Examples
        --------
        >>> import mixts
        >>> family = mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]])
        >>> prior = mixts.MixturePrior(family, arm_names=["shoes", "books"])
        >>> wider = prior.add_arms(["hats"], like="shoes")
        >>> wider.family.parameter_means().round(2)
        array([[0.8, 0.2, 0.8],
               [0.2, 0.8, 0.2]])
        >>> wider.arms.new
        array([False, False,  True])
        """
        if like is not None and mean is not None:
            raise ParameterError("give like or mean, not both")
        names = self.arms.new_names(arms)
        n = len(names) if names is not None else _checks.count(arms, "arms")
        one = self.arm_prior
        if one is None:
            raise ParameterError(f"only priors of arms accept new arms, got {self.family!r}")
        if like is not None:
            found = self.family.parameter_means()[:, [self.arms.index(like)]]
            one = like_arms(one, found, one.parameter_variances())
        elif mean is not None:
            level = _mean_guess(mean, self.family)
            one = like_arms(one, np.full((self.n_components, 1), level), one.parameter_variances())
        return self.with_arms(one.as_arms.arms([0] * n), names)

    def with_arms(self, family: Family, arm_names: Sequence[str] | None = None) -> MixturePrior:
        """Return a prior with more arms, marked as new; live tasks keep their statistics.

        :meth:`add_arms` needs no parameters.

        Descriptions stay unless a new arm becomes the best of a component, which they would deny.

        Parameters
        ----------
        family
            The new arms, of the same family, with parameters for every component.
        arm_names
            Names of the new arms, if the prior names its arms.

        Returns
        -------
        MixturePrior
            A prior with the new arms after the others.
        """
        joined = self.family.as_arms.with_arms(family)
        names = self.arms.extended(arm_names)
        texts = self.descriptions
        if texts is not None:
            # A new arm that may be a kind's best makes its sentence wrong.
            best, new = (
                f.mean_rewards(f.parameter_means()).max(axis=1) for f in (self.family, family)
            )
            texts = texts if np.all(new <= best) else None
        n_more = (joined.n_arms or 0) - (self.family.n_arms or 0)
        prior = self.replace(
            family=joined, arm_names=names, descriptions=texts, arm_prior=self.arm_prior,
            origin=None if self.origin is None else self.origin.with_arms(n_more),
        )  # fmt: skip
        new = np.append(self.arms.new, np.ones(n_more, bool))
        return prior._mark(self.arms.retired, new)

    def retire_arms(self, arms: Sequence[int | str]) -> MixturePrior:
        """Return a prior whose agents never take these arms; their observations still count.

        Parameters
        ----------
        arms
            Indices or names of arms.

        Returns
        -------
        MixturePrior
            A prior with these arms retired.

        Examples
        --------
        >>> import mixts
        >>> family = mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]])
        >>> prior = mixts.MixturePrior(family, arm_names=["shoes", "books"]).retire_arms(["books"])
        >>> mixts.MixTS(prior, n_tasks=3, seed=1).act()
        array([0, 0, 0])
        """
        retired = self.arms.retired | self.arms.chosen(arms)
        if retired.all():
            raise ParameterError("all arms would be retired: at least one must remain")
        return self.replace()._mark(retired, self.arms.new)

    def restore_arms(self, arms: Sequence[int | str]) -> MixturePrior:
        """Return a prior whose agents take these retired arms again.

        Parameters
        ----------
        arms
            Indices or names of arms; an arm that is not retired stays as it is.

        Returns
        -------
        MixturePrior
            A prior in which these arms are not retired.
        """
        retired = self.arms.retired & ~self.arms.chosen(arms)
        return self.replace()._mark(retired, self.arms.new)

    def rename_arms(self, names: Mapping[str, str]) -> MixturePrior:
        """Return a prior with other names of some arms; an arm keeps its index and its data.

        Parameters
        ----------
        names
            The new name of each present name. All names change at once, so two arms may swap
            theirs.

        Returns
        -------
        MixturePrior
            A prior with the new names.
        """
        return self.replace(arm_names=self.arms.renamed(names), descriptions=None)

    def mark_new(self, arms: Sequence[int | str]) -> MixturePrior:
        """Return a prior in which exactly these arms are marked as new.

        Parameters
        ----------
        arms
            Indices or names of arms.

        Returns
        -------
        MixturePrior
            A prior with these marks.
        """
        return self.replace()._mark(self.arms.retired, self.arms.chosen(arms))

    def with_descriptions(self, descriptions: Sequence[str] | None) -> MixturePrior:
        """Return the same prior with a sentence about each component, or with none.

        Parameters
        ----------
        descriptions
            A sentence for each component.

        Returns
        -------
        MixturePrior
            A prior with these sentences.
        """
        return self.replace(descriptions=descriptions)

    def action_rows(self, actions: Any, context: Any = None) -> Any:
        """Replace descriptions of actions by rows of features; all else stays as it is.

        Parameters
        ----------
        actions
            A mapping from names of features to values, lists of such mappings, or tables: of the
            features by their names, or of the numbers of a row if the features have no names.
        context
            Facts of the person by name, for all actions; or a list of them, one for each decision.
            None: descriptions say what is known.

        Returns
        -------
        array
            Rows of features, (d,), (K, d) or (n, K, d); anything but descriptions is returned as it
            came.
        """
        if context is not None and self.features is None:
            raise ActionError(
                "a context needs a prior whose features have pooled effects, got one without "
                "names of features"
            )
        if isinstance(context, (list, tuple)) and not (
            isinstance(actions, Sequence) and len(actions) == len(context)
        ):
            raise ActionError(
                f"a list of contexts needs a list of {len(context)} action sets, one for each"
            )
        return described_rows(actions, self.features, context)

    def replace(self, **changes: Any) -> MixturePrior:
        """Return a prior with other values of some of the constructor's arguments.

        Everything else stays: the marks of arms, too, whose number may grow. But another family
        has no origin unless one is given.

        Parameters
        ----------
        **changes
            Arguments of the constructor.

        Returns
        -------
        MixturePrior
            The changed prior.
        """
        kept: dict[str, Any] = {
            "family": self.family, "weights": self.weights, "names": self.names,
            "arm_names": self.arm_names, "features": self.features,
            "descriptions": self.descriptions, "arm_prior": self._arm_prior, "kinds": self.kinds,
            "repeatable": self.repeatable,
        }  # fmt: skip
        if "family" not in changes:
            kept["origin"] = self.origin
        return MixturePrior(**{**kept, **changes})._mark(self.arms.retired, self.arms.new)

    def _mark(self, retired: Bool[Array, " r"], new: Bool[Array, " n"]) -> MixturePrior:
        """Set the retired arms and the new arms of a prior that was just made."""
        self.arms = self.arms.marked(retired, new)
        return self

    # -- files --------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file: JSON if the path ends in ``.json``, else a zip of arrays.

        Parameters
        ----------
        path
            Where to write; an existing file is replaced in one step.

        Examples
        --------
        >>> import mixts
        >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
        >>> prior.save("prior.json")
        >>> mixts.MixturePrior.load("prior.json").family
        BernoulliArms(2 components, 2 arms)
        """
        write_bundle(path, "prior", *self.bundle())

    def to_bytes(self) -> bytes:
        """Return the content of the zip file that ``save`` would write."""
        return pack_bundle("prior", *self.bundle(), as_json=False)

    def bundle(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return what a file stores: a header of plain values, and arrays."""
        header: dict[str, Any] = {
            "family": self.family.kind,
            "settings": self.family.settings(),
            "names": self.names,
            "arm_names": self.arm_names,
            "retired": np.flatnonzero(self.arms.retired).tolist(),
        }
        if self.arms.new.any():
            header["new"] = np.flatnonzero(self.arms.new).tolist()
        if self.features is not None:
            header["features"] = self.features.header()
        if self.descriptions is not None:
            header["descriptions"] = self.descriptions
        if self.kinds is not None:
            header["kinds"] = self.kinds
        if not self.repeatable:
            header["repeatable"] = False
        arrays = {"weights": self.weights, **self.family.arrays()}
        if self.origin is not None:
            header["origin"], arrays[_KNOWN] = self.origin.header(), self.origin.known
        if self._arm_prior is not None:
            arrays |= {f"{_ARM_PRIOR}{k}": v for k, v in self._arm_prior.arrays().items()}
        return header, arrays

    @staticmethod
    def load(path: str | os.PathLike[str]) -> MixturePrior:
        """Read a prior that ``save`` wrote; everything is checked again.

        Parameters
        ----------
        path
            A file of any suffix; the content decides how it is read.

        Returns
        -------
        MixturePrior
            The prior.
        """
        return MixturePrior.from_bytes(read_content(path), str(path))

    @staticmethod
    def from_bytes(content: bytes, source: str = "the prior") -> MixturePrior:
        """Return the prior of a file's content.

        Parameters
        ----------
        content
            Content of a file that ``save`` wrote, or the result of :meth:`to_bytes`.
        source
            Name of the content in error messages.

        Returns
        -------
        MixturePrior
            The prior.
        """
        return MixturePrior.from_bundle(*unpack_bundle(content, "prior", source), source)

    @staticmethod
    def from_bundle(
        header: dict[str, Any], arrays: dict[str, Array], source: str = "the prior"
    ) -> MixturePrior:
        """Return the prior of a file's header and arrays.

        Parameters
        ----------
        header, arrays
            As :meth:`bundle` returns them.
        source
            Name of the content in error messages.

        Returns
        -------
        MixturePrior
            The prior.
        """
        kind = FAMILIES.get(str(header.get("family")))
        if kind is None:
            raise FormatError(
                f"{source}: unknown family {header.get('family')!r}; known: {sorted(FAMILIES)}. "
                "Import the module that defines it first"
            )
        try:
            one = {k.removeprefix(_ARM_PRIOR): v for k, v in arrays.items() if _of_arm_prior(k)}
            own = {k: v for k, v in arrays.items() if not _of_arm_prior(k)}
            known, learned = own.pop(_KNOWN, None), header.get("origin")
            weights, settings = own.pop("weights"), dict(header["settings"])
            described = header.get("features")
            prior = MixturePrior(
                kind.restore(settings, own), weights, header["names"], header["arm_names"],
                None if described is None else Features.restore(described),
                descriptions=header.get("descriptions"),
                arm_prior=kind.restore(settings, one) if one else None,
                kinds=header.get("kinds"),
                repeatable=header.get("repeatable", True),
                origin=None if learned is None else Origin(known=known, **learned),  # type: ignore[arg-type]
            )  # fmt: skip
            prior = prior.retire_arms(header["retired"]) if header["retired"] else prior
            return prior.mark_new(header["new"]) if header.get("new") else prior
        except (MixtsError, KeyError, TypeError, ValueError) as error:
            raise FormatError(f"{source} is damaged: {error}") from error


def _checked_repeatable(repeatable: Any, family: Family) -> bool:
    if repeatable not in (True, False):
        raise ParameterError(f"repeatable must be True or False, got {repeatable!r}")
    if not repeatable and family.plans:
        raise ParameterError(
            f"the actions of {family!r} are taken again and again: leave repeatable out"
        )
    return bool(repeatable)


def _checked_features(features: Any, family: Family) -> Features | None:
    if features is None:
        return None
    if not isinstance(features, Features):
        raise ParameterError(f"features must be a mixts.Features, got {type(features).__name__}")
    if family.n_features is None:
        raise ParameterError(f"features need a linear family, got {family!r}")
    if features.n_numbers != family.n_features:
        raise ParameterError(
            f"features must make rows of {family.n_features} numbers for {family!r}, got "
            f"{features.n_numbers}: {', '.join(features.names)}"
        )
    if features.pooled is not None:
        if features.pooled.coefficients is None:
            raise ParameterError(
                "pooled effects must have coefficients: learn them (mixts fit --person), or give "
                "them to mixts.Pooled"
            )
        if not family.has_offset:
            raise ParameterError(
                "features with pooled effects need a family whose last coefficient is 1 in every "
                "component, without variance: family.with_offset() adds it"
            )
    return features


def _checked_texts(
    texts: Sequence[str] | None, n_components: int, what: str, noun: str
) -> tuple[str, ...] | None:
    """Return a text for each component; unlike names, two components may have the same one."""
    if texts is None:
        return None
    found = tuple(texts) if not isinstance(texts, str) else (texts,)
    if len(found) != n_components or not all(isinstance(text, str) and text for text in found):
        raise ParameterError(
            f"{what} must be {n_components} {noun}, one for each component, got {texts!r}"
        )
    return found
