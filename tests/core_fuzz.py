"""Call every class and function of the compiled core with hostile arguments.

    python -m tests.core_fuzz SEED ROUNDS [LOG [NAME]]

A workload over all families and agents records the calls that the library makes. Each call is then
repeated with one or two arguments changed: other types, dtypes, shapes, layouts, indices and
numbers. Functions that the workload does not call get arrays that fit their signatures. Only
exceptions are allowed. The log holds the last call, so that a crash can be traced to it; NAME
chooses the functions whose names contain it.
"""

from __future__ import annotations

import faulthandler
import os
import re
import resource
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tests import built_core

MOST_CALLS = 12
"""Recorded calls of each function, of different shapes."""
MOST_SECONDS = 60
"""A call that takes longer never ends."""
MOST_BYTES = 8 << 30
"""Address space: a size that is wrong must not fill the machine."""


# -- recorded calls -------------------------------------------------------------------------------


@dataclass
class Made:
    """A core object, by the arguments of its constructor; the last ones may have names.

    ``before`` holds the last call of each method so far: some methods need others first.
    """

    kind: type
    arguments: tuple[Any, ...]
    names: tuple[str, ...] = ()
    before: tuple[Call, ...] = ()

    def make(self) -> Any:
        made = called(self.kind, thaw(self.arguments), self.names)
        for call in self.before:
            called(call.function, (made, *thaw(call.arguments)), call.names)
        return made


@dataclass
class Call:
    """A call of a function, or of a method of an object; the last arguments may have names."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    names: tuple[str, ...] = ()


def called(function: Callable[..., Any], arguments: tuple[Any, ...], names: tuple[str, ...]) -> Any:
    """Call a function, with names for the last arguments."""
    n = len(arguments) - len(names)
    return function(*arguments[:n], **dict(zip(names, arguments[n:], strict=True)))


class Drawn:
    """Stands for a random generator."""


def freeze(value: Any) -> Any:
    """Return a copy of an argument that later calls do not change."""
    if isinstance(value, Recorded):
        return value.made
    if isinstance(value, np.ndarray):
        copy = value.copy()
        copy.flags.writeable = value.flags.writeable
        return copy
    if isinstance(value, np.random.Generator):
        return Drawn()
    return tuple(map(freeze, value)) if type(value) is tuple else value


def thaw(value: Any) -> Any:
    """Return an argument for one call."""
    if isinstance(value, Made):
        return value.make()
    if isinstance(value, np.ndarray):
        return freeze(value)
    if isinstance(value, Drawn):
        return np.random.default_rng(1)
    return tuple(map(thaw, value)) if type(value) is tuple else value


def raw(value: Any) -> Any:
    """Return an argument as the core takes it."""
    if isinstance(value, Recorded):
        return value.held
    return tuple(map(raw, value)) if type(value) is tuple else value


class Recorded:
    """A core object that records the calls of its methods."""

    def __init__(self, recorder: Recorder, made: Made, held: Any) -> None:
        vars(self).update(recorder=recorder, made=made, held=held)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.held, name)
        if not callable(value):
            return value
        kind = self.made.kind

        def method(*arguments: Any, **named: Any) -> Any:
            given, names = (*arguments, *named.values()), tuple(named)
            full, function, frozen = f"{kind.__name__}.{name}", getattr(kind, name), freeze(given)
            self.recorder.keep(Call(full, function, (self.made, *frozen), names))
            others = tuple(call for call in self.made.before if call.name != full)
            last = Call(full, function, frozen, names)
            vars(self)["made"] = replace(self.made, before=(*others, last))
            return called(value, raw(given), names)

        return method

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.held, name, value)


@dataclass
class Recorder:
    """Stands in for the core, and keeps calls of different shapes."""

    core: Any
    calls: dict[str, list[Call]] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.core, name)
        if not callable(value):
            return value

        def function(*arguments: Any, **named: Any) -> Any:
            given, names = (*arguments, *named.values()), tuple(named)
            call = Call(name, value, freeze(given), names)
            self.keep(call)
            result = called(value, raw(given), names)
            if not isinstance(value, type):
                return result
            return Recorded(self, Made(value, call.arguments, names), result)

        return function

    def keep(self, call: Call) -> None:
        shapes = [np.shape(x) if isinstance(x, np.ndarray) else type(x) for x in call.arguments]
        kept, known = self.calls.setdefault(call.name, []), f"{call.name}{shapes}{call.names}"
        if len(kept) < MOST_CALLS and known not in self.known:
            self.known.add(known)
            kept.append(call)


def work() -> None:
    """Act, update, learn and read beliefs with every family and agent, for one task and many."""
    import mixts
    from mixts import errors
    from tests.contracts.agents import AGENTS
    from tests.contracts.problems import ALL_CASES

    for case in ALL_CASES:
        belief: Any = case.tasks(3, 4, 12)
        _read(belief, case.actions)
        if not case.mdp:
            statistics = belief.statistics
            observed = statistics.observations(*case.history(3, 12))
            statistics.observe(np.arange(12) % 3, observed)
        for record in AGENTS.values():
            if case.mdp and not record.plans:
                continue
            for n_tasks in (None, 3):
                try:
                    _play(record.build(case, n_tasks, 1), case)
                except errors.MixtsError:  # not every agent decides about every family
                    continue
        kind = mixts.MDPEnvironment if case.mdp else mixts.BanditEnvironment
        environment = kind(case.prior) if case.actions is None else kind(case.prior, case.actions)
        mixts.simulate({"MixTS": case.prior}, environment, n_rounds=3, n_runs=2, seed=1)
        for method in ("evidence", "two-stage"):
            many = case.tasks(5, 30, 150).statistics
            settings = case.prior.family.learning_settings()
            try:
                learned = mixts.learn_prior(many, 2, method=method, seed=1, **settings)
                mixts.check_prior(learned, many, seed=1)
            except errors.MixtsError:  # nor can every prior be learned
                continue


def _read(belief: Any, actions: Any) -> None:
    import mixts
    from mixts.families._logistic import new_posterior

    for name in ("weights", "mean", "covariance", "log_evidence", "evidence_error"):
        getattr(belief, name)
    belief.mean_rewards(actions)
    belief.sample(np.random.default_rng(1))
    if hasattr(belief.posterior, "component_roots"):
        belief.posterior.component_roots(np.arange(3))
    belief.add_tasks(1)
    if isinstance(belief.prior.family, mixts.LinearBernoulli):
        found = new_posterior(belief.prior.family.design, 256)
        wanted, table = np.ones(belief.prior.n_components, bool), belief.posterior._table(0)
        found.find_modes(*table, wanted)
        found.integrate(*table, wanted, 0.01, 256)
    mixts.MixTS.resume(belief.prior, belief.statistics + belief.statistics, seed=1).act(actions)


def _play(agent: Any, case: Any) -> None:
    actions = case.actions
    mask = np.arange(case.n_actions) > 0
    for _ in range(3):
        chosen = agent.act(actions)
        if case.mdp:
            (episodes,) = case.history(2, 1 if agent.n_tasks is None else agent.n_tasks)
            agent.update(episodes)
            continue
        features = actions is not None and actions[chosen]
        _, outcomes = case.history(4, np.size(chosen))
        given = chosen if actions is None else features
        agent.update(given, outcomes if np.ndim(chosen) else float(outcomes[0]))
    if case.mdp:
        return
    agent.act(actions, mask=mask)
    agent.action_probabilities(actions)
    agent.act_with_probabilities(actions, mask=mask, floor=0.01)
    agent.act(actions, top=2)
    values = np.linspace(1.0, 2.0, case.n_actions)
    agent.act(actions, values=values, costs=0.1 * values)
    if agent.n_tasks is None:
        agent.act(actions, waiting=given if actions is None else features[None])


# -- calls that fit a signature -------------------------------------------------------------------

_ARRAY = re.compile(r"dtype=(\w+)(?:, shape=\(([^)]*)\))?")


def fitting(function: Any) -> tuple[Any, ...]:
    """Return arguments whose types and numbers of axes fit; sizes need not."""
    text = function.__nb_signature__[0][0]
    inside = text[text.index("(") + 1 : text.rindex(") ->")]
    parts = [part for part in re.split(r", (?=\w+: )|, (?=/)", inside) if ":" in part]
    return tuple(_value(part.split(":", 1)[1]) for part in parts)


def _value(kind: str) -> Any:
    found = _ARRAY.search(kind)
    if found:
        axes = (found[2] or "*").count("*")
        return np.ones((2,) * axes, found[1])
    words = {"int": 2, "float": 0.5, "bool": True, "str": "x"}
    return next((value for word, value in words.items() if word in kind), Drawn())


def every_call(core: Any, recorder: Recorder) -> Iterator[list[Call]]:
    """Yield the known calls of each function and method of the core."""
    for name, held in vars(core).items():
        if name.startswith("_") or not callable(held):
            continue
        if not isinstance(held, type):
            yield recorder.calls.get(name) or [Call(name, held, fitting(held))]
            continue
        made = recorder.calls.get(name) or [Call(name, held, fitting(held.__init__))]
        yield made
        for method, function in vars(held).items():
            if not hasattr(function, "__nb_signature__") or method == "__init__":
                continue
            full, owner = f"{name}.{method}", Made(held, made[0].arguments, made[0].names)
            yield recorder.calls.get(full) or [Call(full, function, (owner, *fitting(function)))]


# -- hostile arguments ----------------------------------------------------------------------------

OTHERS: tuple[Any, ...] = (
    None, "x", b"", 1.5, -1, 10**30, [], [1, 2], {}, object(), int, np.float64(2.0), True,
    np.zeros(0), np.zeros((0, 0)), np.zeros((2, 0, 2)), np.ones(3, complex), np.ones(3, object),
    np.ones((1,) * 5), np.array(3.0), np.ones(2, ">f8"),
)  # fmt: skip
WHOLE = (-1, 0, 1, 2, 3, 7, 2**31, 2**62, -(2**63), 2**63 - 1)
# Entries of arrays may be counts, which the core adds up; no history has more than these.
COUNTS = (-1, 0, 1, 2, 3, 7, 2**31, 2**58, -(2**58))
REAL = (np.nan, np.inf, -np.inf, -1.0, 0.0, -0.0, 1e308, -1e308, 5e-324, 1e75, 2.0**63)


def hostile(rng: np.random.Generator, value: Any) -> Any:
    """Return another value of an argument."""
    if rng.random() < 0.15 or not isinstance(value, (np.ndarray, int, float, Made)):
        return OTHERS[rng.integers(len(OTHERS))]
    if isinstance(value, Made):
        return changed(rng, value)
    if not isinstance(value, np.ndarray):
        pool = WHOLE if isinstance(value, int) else REAL
        return pool[rng.integers(len(pool))]
    change = (
        _other_numbers, _other_numbers, _other_numbers, _other_size, _other_size, _other_layout,
    )[rng.integers(6)]  # fmt: skip
    return change(rng, value)


def changed(rng: np.random.Generator, made: Made) -> Made:
    """Return an object made, or prepared, with other arguments."""
    k = int(rng.integers(len(made.before) + 1))
    if k < len(made.before):
        one = made.before[k]
        one = replace(one, arguments=_one_changed(rng, one.arguments))
        return replace(made, before=(*made.before[:k], one, *made.before[k + 1 :]))
    return replace(made, arguments=_one_changed(rng, made.arguments))


def _one_changed(rng: np.random.Generator, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    changed = list(arguments)
    if changed:
        i = rng.integers(len(changed))
        changed[i] = hostile(rng, changed[i])
    return tuple(changed)


def _other_numbers(rng: np.random.Generator, array: Any) -> Any:
    result = array.copy()
    pool = COUNTS if array.dtype.kind == "i" else REAL
    if not array.size or array.dtype.kind not in "if":
        return result
    n = 1 if rng.random() < 0.7 else array.size
    where = rng.integers(array.size, size=n)
    numbers = np.array(pool)[rng.integers(len(pool), size=n)]
    result.reshape(array.size)[where] = numbers.astype(array.dtype)
    return result


def _other_size(rng: np.random.Generator, array: Any) -> Any:
    if array.ndim == 0 or rng.random() < 0.2:
        return array[None].copy() if rng.random() < 0.5 else array.ravel().copy()
    axis = int(rng.integers(array.ndim))
    n = array.shape[axis]
    size = [0, 1, max(n - 1, 0), n + 1, 2 * n + 3][rng.integers(5)]
    return np.resize(array, (*array.shape[:axis], size, *array.shape[axis + 1 :]))


def _other_layout(rng: np.random.Generator, array: Any) -> Any:
    kind = rng.integers(5)
    if kind == 0:
        result = array.copy()
        result.flags.writeable = False
        return result
    if kind == 1:
        return np.asfortranarray(array)
    if kind == 2:
        return np.repeat(array, 2, axis=-1)[..., ::2] if array.ndim else array
    if kind == 3:
        return array[::-1] if array.ndim else array
    dtypes = (np.float32, np.int32, np.uint8, np.int64, np.float64, np.bool_, np.complex128)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return array.astype(dtypes[rng.integers(len(dtypes))])


# -- the run --------------------------------------------------------------------------------------


def _fixed_bytes(arguments: Any) -> list[bytes]:
    """Return what is in the read-only arrays."""
    arrays = (x for x in arguments if isinstance(x, np.ndarray))
    return [x.tobytes() for x in arrays if not x.flags.writeable]


def attempt(call: Call, arguments: tuple[Any, ...]) -> bool:
    """Make the call; return whether it was accepted. A read-only array must stay as it is."""
    try:
        ready = thaw(arguments)
        before = _fixed_bytes(ready)
        called(call.function, ready, call.names)
    except Exception:
        return False
    if _fixed_bytes(ready) != before:
        raise SystemExit(f"{call.name} wrote to a read-only array")
    return True


def fuzz(seed: int, n_rounds: int, log: str = os.devnull, name: str = "") -> None:
    """Repeat every call with changed arguments, ``n_rounds`` times for each function."""
    built = built_core.install()
    from mixts import _program

    if built is not None and _program.core is not built:
        raise SystemExit("mixts does not run with the core that was built")
    core, recorder = _program.core, Recorder(_program.core)
    _program.core = recorder
    work()
    _program.core = core
    rng = np.random.default_rng(seed)
    with open(log, "w") as file:
        for calls in every_call(core, recorder):
            if name not in calls[0].name:
                continue
            accepted = 0
            for _ in range(n_rounds):
                call = calls[rng.integers(len(calls))]
                arguments = list(call.arguments)
                for i in rng.integers(len(arguments), size=rng.integers(1, 3)) if arguments else ():
                    arguments[i] = hostile(rng, arguments[i])
                file.seek(0)
                file.truncate()
                print(call.name, arguments, file=file, flush=True)
                faulthandler.dump_traceback_later(MOST_SECONDS, exit=True)
                accepted += attempt(call, tuple(arguments))
            known = "recorded" if calls[0].name in recorder.calls else "from its signature"
            print(f"{calls[0].name}: {accepted} of {n_rounds} accepted, {known}", flush=True)
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    faulthandler.enable()
    if "asan" not in os.environ.get("LD_PRELOAD", ""):  # whose own memory is larger
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    np.seterr(all="ignore")
    warnings.simplefilter("ignore")
    fuzz(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:5])
