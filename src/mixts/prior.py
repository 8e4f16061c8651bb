"""The mixture prior: L latent states, each with a distribution over model parameters."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mixts import _checks
from mixts._files import pack_bundle, unpack_bundle, write_bundle
from mixts._typing import Array, ArrayLike, Bool, Float, Int
from mixts.belief import Belief
from mixts.errors import ActionError, FormatError, MixtsError, ParameterError, StatisticsError
from mixts.families.base import FAMILIES, Family
from mixts.families.statistics import Statistics
from mixts.families.trajectory import Trajectory
from mixts.features import Features

_MOST_SHOWN = 20
"""Arm names that an error message lists."""


class MixturePrior:
    """P_0: weights of L latent states, and the parameters' prior given each  [paper: Sec. 2].

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
    ) -> None:
        if not isinstance(family, Family):
            raise ParameterError(f"family must be a mixts family, got {type(family).__name__}")
        self.family = family
        self.weights: Float[Array, " L"] = _checks.weight_vector(weights, family.n_components)
        self.names = _checks.name_list(names, family.n_components, "names")
        if arm_names is not None and family.n_arms is None:
            raise ParameterError(f"arm_names need a family with arms, got {family!r}")
        self.arm_names = _checks.name_list(arm_names, family.n_arms or 0, "arm_names")
        self.features = _checked_features(features, family)
        self._arm_index = {name: k for k, name in enumerate(self.arm_names or ())}
        self.descriptions = _checked_descriptions(descriptions, family.n_components)
        self._retired = np.zeros(family.n_arms or 0, bool)
        self._n_retired = 0
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
        if self.has_retired:
            labels = [
                self.arm_names[k] if self.arm_names else str(k)
                for k in np.flatnonzero(self.retired)
            ]
            lines.append(f"  retired arms: {', '.join(labels)}")
        return "\n".join(lines)

    # -- beliefs ------------------------------------------------------------------------------

    def belief(self, n_tasks: int | None = None) -> Belief:
        """Return the belief about tasks without observations.

        Parameters
        ----------
        n_tasks
            Number of tasks; None for one task without a task axis.
        """
        return Belief(self, self.family.empty_statistics(n_tasks))

    def condition(self, statistics: Statistics) -> Belief:
        """Return the belief about tasks with these statistics, which stay unchanged.

        Parameters
        ----------
        statistics
            Statistics of the tasks' histories, as ``belief.statistics`` returns them.
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
        """
        return self._with(self.family.collapse(self.weights), None, None, None)

    def select(self, components: ArrayLike) -> MixturePrior:
        """Return a prior of some components, their weights rescaled to sum to one.

        Parameters
        ----------
        components
            Component indices; with repeats, names are dropped. Descriptions stay: they compare a
            component with the tasks that the prior was learned from.
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
        return self._with(self.family.select(index), weights / weights.sum(), names, texts)

    def with_arms(self, family: Family, arm_names: Sequence[str] | None = None) -> MixturePrior:
        """Return a prior with more arms; live tasks keep their statistics.

        Descriptions stay unless a new arm becomes the best of a component, which they would deny.

        Parameters
        ----------
        family
            The new arms, of the same family, with parameters for every component.
        arm_names
            Names of the new arms, if the prior names its arms.
        """
        joined = self.family.with_arms(family)
        if (arm_names is None) != (self.arm_names is None):
            raise ParameterError(
                "the prior has arm names: give names for the new arms, too"
                if self.arm_names
                else "the prior has no arm names: leave out the names of new arms"
            )
        names = [*(self.arm_names or ()), *arm_names] if arm_names is not None else None
        texts = self.descriptions
        if texts is not None:
            best = self.family.parameter_means().max(axis=1)
            texts = texts if np.all(family.parameter_means().max(axis=1) <= best) else None
        prior = MixturePrior(joined, self.weights, self.names, names, descriptions=texts)
        return prior._retire(self._retired)

    def retire_arms(self, arms: Sequence[int | str]) -> MixturePrior:
        """Return a prior whose agents never take these arms; their observations still count.

        Parameters
        ----------
        arms
            Indices or names of arms.
        """
        if isinstance(arms, (str, int)):
            raise ParameterError(f"arms must be a list of indices or names, got {arms!r}")
        retired = self._retired.copy()
        for arm in arms:
            retired[self.arm_index(arm)] = True
        if retired.all():
            raise ParameterError("all arms would be retired: at least one must remain")
        same = self._with(self.family, self.weights, self.names, self.descriptions)
        return same._retire(retired)

    def with_descriptions(self, descriptions: Sequence[str] | None) -> MixturePrior:
        """Return the same prior with a sentence about each component, or with none.

        Parameters
        ----------
        descriptions
            A sentence for each component.
        """
        return self._with(self.family, self.weights, self.names, descriptions)

    @property
    def retired(self) -> Bool[Array, " K"]:
        """True for each retired arm; empty for families without arms."""
        view = self._retired[:]
        view.flags.writeable = False
        return view

    @property
    def has_retired(self) -> bool:
        """Whether any arm is retired."""
        return self._n_retired > 0

    def arm_index(self, arm: int | str) -> int:
        """Return the index of an arm given by index or by name."""
        n_arms = self.family.n_arms
        if n_arms is None:
            raise ParameterError(f"{self.family!r} has no arms")
        if isinstance(arm, str):
            if arm not in self._arm_index:
                raise ParameterError(f"unknown arm {arm!r}; arms: {self.arm_names or n_arms}")
            return self._arm_index[arm]
        index = _checks.count(arm, "arm", least=0)
        if index >= n_arms:
            raise ParameterError(f"arms are numbered from 0 to {n_arms - 1}, got {index}")
        return index

    def arm_indices(self, arms: Any) -> Any:
        """Replace arm names by indices; indices, features and trajectories stay as they are.

        Parameters
        ----------
        arms
            A name, or names in a list or an array of any shape.
        """
        if type(arms) is int or self.arm_names is None or isinstance(arms, Trajectory):
            return arms
        try:
            array = np.asarray(arms)
        except ValueError:
            return arms  # nested lists of different lengths: the caller refuses them
        if array.dtype.kind not in "UT":
            return arms
        names = [str(name) for name in array.reshape(-1)]
        unknown = [name for name in names if name not in self._arm_index]
        if unknown:
            known = ", ".join(map(repr, self.arm_names[:_MOST_SHOWN]))
            more = len(self.arm_names) - _MOST_SHOWN
            raise ActionError(
                f"unknown arm {unknown[0]!r}; known arms: {known}"
                + (f" and {more} more" if more > 0 else "")
            )
        index = np.array([self._arm_index[name] for name in names], np.int64)
        return index.reshape(array.shape)

    def action_rows(self, actions: Any) -> Any:
        """Replace descriptions of actions by rows of features; all else stays as it is.

        Parameters
        ----------
        actions
            A mapping from names of features to values, or lists of such mappings.
        """
        if isinstance(actions, np.ndarray):
            return actions
        first = actions
        while isinstance(first, (list, tuple)) and first:
            first = first[0]
        if not isinstance(first, Mapping):
            return actions
        if self.features is None:
            raise ActionError(
                "this prior does not name its features, so an action must be a row of numbers, got "
                f"{first!r}; name them by MixturePrior(..., features=...)"
            )
        if isinstance(actions, Mapping):
            return self.features.row(actions)
        if isinstance(actions[0], Mapping):
            return self.features.rows(actions)
        sets = [self.action_rows(one) for one in actions]
        if len({len(one) for one in sets}) > 1:
            raise ActionError(
                "all decisions of one call must offer equally many actions, got "
                f"{[len(one) for one in sets]}: pad the sets, and mask the padding"
            )
        return np.stack(sets)

    def _with(
        self,
        family: Family,
        weights: ArrayLike | None,
        names: Sequence[str] | None,
        descriptions: Sequence[str] | None,
    ) -> MixturePrior:
        prior = MixturePrior(
            family, weights, names, self.arm_names, self.features, descriptions=descriptions
        )
        return prior._retire(self._retired)

    def _retire(self, retired: Bool[Array, " k"]) -> MixturePrior:
        """Set the retired arms of a new prior."""
        self._retired[: len(retired)] = retired
        self._n_retired = int(self._retired.sum())
        return self

    # -- files --------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file: JSON if the path ends in ``.json``, else a zip of arrays."""
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
            "retired": [int(k) for k in np.flatnonzero(self._retired)],
        }
        if self.features is not None:
            header["features"] = self.features.header()
        if self.descriptions is not None:
            header["descriptions"] = self.descriptions
        return header, {"weights": self.weights, **self.family.arrays()}

    @staticmethod
    def load(path: str | os.PathLike[str]) -> MixturePrior:
        """Read a prior that ``save`` wrote, of any suffix; everything is checked again."""
        return MixturePrior.from_bytes(Path(path).read_bytes(), str(path))

    @staticmethod
    def from_bytes(content: bytes, source: str = "the prior") -> MixturePrior:
        """Return the prior of a file's content; messages name ``source``."""
        return MixturePrior.from_bundle(*unpack_bundle(content, "prior", source), source)

    @staticmethod
    def from_bundle(
        header: dict[str, Any], arrays: dict[str, Array], source: str = "the prior"
    ) -> MixturePrior:
        """Return the prior of a file's header and arrays; messages name ``source``."""
        kind = FAMILIES.get(str(header.get("family")))
        if kind is None:
            raise FormatError(
                f"{source}: unknown family {header.get('family')!r}; known: {sorted(FAMILIES)}"
            )
        try:
            own = dict(arrays)
            weights = own.pop("weights")
            family = kind.restore(dict(header["settings"]), own)
            described = header.get("features")
            features = None if described is None else Features.restore(described)
            prior = MixturePrior(
                family, weights, header["names"], header["arm_names"], features,
                descriptions=header.get("descriptions"),
            )  # fmt: skip
            return prior.retire_arms(header["retired"]) if header["retired"] else prior
        except (MixtsError, KeyError, TypeError, ValueError) as error:
            raise FormatError(f"{source} is damaged: {error}") from error


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
    return features


def _checked_descriptions(
    descriptions: Sequence[str] | None, n_components: int
) -> tuple[str, ...] | None:
    """Return a sentence for each component; unlike names, two components may have the same one."""
    if descriptions is None:
        return None
    texts = tuple(descriptions) if not isinstance(descriptions, str) else (descriptions,)
    if len(texts) != n_components or not all(isinstance(text, str) and text for text in texts):
        raise ParameterError(
            f"descriptions must be {n_components} sentences, one for each component, got "
            f"{descriptions!r}"
        )
    return texts
