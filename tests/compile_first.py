"""A pytest plugin for a run of all tests: workers compile different loops before they collect.

Otherwise every worker would compile the loops that most tests need, at the same time. Loops that
are in the cache already are only loaded.
"""

from __future__ import annotations

import os

KINDS = ("arms", "linear", "mdp")
"""What agents decide about; to compile the loops of the second takes as long as of the others."""


def pytest_sessionstart() -> None:
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is not None:
        number, n_workers = int(worker[2:]), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        for kind in KINDS[number::n_workers]:
            decide(kind)


def decide(kind: str) -> None:
    """Let each agent decide and learn, alone and for several tasks."""
    # Not before conftest.py, which has mixts checked when it is imported.
    from tests.contracts.agents import CASES

    for case in CASES:
        if case.kind == kind:
            for n_tasks in (None, 2):
                agent = case.build(n_tasks)
                case.play(agent, 2)
            if hasattr(agent, "belief"):
                agent.belief.prior.condition(agent.belief.statistics).log_evidence  # noqa: B018
