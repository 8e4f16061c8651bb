"""What ``simulate`` accepts as an agent: how to make one, not one that exists.

Every block of runs is played by an agent of its own, possibly in another process, so agents are
described: by a prior (:class:`MixTS` with it), or by something that is called with keywords.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from mixts.agents import MixTS
from mixts.errors import ParameterError
from mixts.prior import MixturePrior

AgentSpec = MixturePrior | Callable[..., Any]
"""A prior, or a callable that takes ``n_tasks``, ``seed`` and, if it likes, other keywords."""

REQUIRED = ("n_tasks", "seed")
OFFERED = (*REQUIRED, "n_rounds", "latent")
"""The keywords that a block offers; ``latent`` is the true latent states, for :class:`Oracle`."""


@dataclass(frozen=True)
class Recipe:
    """A checked spec: what to call, and with which of the offered keywords."""

    make: Callable[..., Any]
    keywords: tuple[str, ...]

    def build(self, **offered: Any) -> Any:
        """An agent for one block of runs."""
        agent = self.make(**{name: offered[name] for name in self.keywords})
        if not (callable(getattr(agent, "act", None)) and callable(getattr(agent, "update", None))):
            raise ParameterError(f"the spec must make an agent with act and update, got {agent!r}")
        return agent


def read_specs(agents: Mapping[str, AgentSpec]) -> dict[str, Recipe]:
    """Check all specs before anything is played."""
    if not isinstance(agents, Mapping) or not agents:
        raise ParameterError(f'agents must be a dictionary {{"name": spec, ...}}, got {agents!r}')
    for name in agents:
        if not isinstance(name, str) or not name:
            raise ParameterError(f"agents must be named by non-empty strings, got {name!r}")
    return {name: _read(name, spec) for name, spec in agents.items()}


def _read(name: str, spec: Any) -> Recipe:
    if isinstance(spec, MixturePrior):
        return Recipe(partial(MixTS, spec), REQUIRED)
    if callable(getattr(spec, "act", None)) and not inspect.isclass(spec):
        kind = type(spec).__name__
        raise ParameterError(
            f"agent {name!r} is a {kind} that exists already, but every block of runs needs its "
            f"own: give functools.partial({kind}, ...) with all arguments but n_tasks and seed"
        )
    if not callable(spec):
        raise ParameterError(
            f"agent {name!r} must be a MixturePrior, or something to call such as "
            f"functools.partial(mixts.MixTS, prior), got {type(spec).__name__}"
        )
    return Recipe(spec, _accepted(name, spec))


def _accepted(name: str, spec: Callable[..., Any]) -> tuple[str, ...]:
    """Those of the offered keywords that the signature names and that are not bound already.

    ``**kwargs`` gets the required ones only: what it passes them on to may not know the others.
    """
    try:
        parameters = inspect.signature(spec).parameters
    except (TypeError, ValueError) as error:
        raise ParameterError(f"agent {name!r}: {spec!r} has no readable signature") from error
    bound = spec.keywords if isinstance(spec, partial) else {}
    by_name = {
        key: parameter
        for key, parameter in parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for key in REQUIRED:
        if key in bound or not (key in by_name or anything):
            state = "binds" if key in bound else "does not accept"
            raise ParameterError(
                f"agent {name!r} {state} {key!r}: simulate gives it, anew for every block of runs"
            )
    missing = [
        key
        for key, parameter in parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        and not (key in OFFERED and key in by_name)
    ]
    if missing:
        raise ParameterError(
            f"agent {name!r} needs {', '.join(missing)}, which simulate does not know: bind it "
            "with functools.partial"
        )
    return tuple(
        key
        for key in OFFERED
        if key not in bound and (key in by_name or (anything and key in REQUIRED))
    )
