"""Past tasks from logs: rows of files and tables become statistics, and these a checked prior."""

from typing import TYPE_CHECKING, Any

from mixts.logs import decisions
from mixts.logs.bad_rows import BadRows, Example
from mixts.logs.fitted import Fit
from mixts.logs.read import TaskLogs, TaskRows, read_logs, read_rows
from mixts.logs.review import review
from mixts.logs.row_faults import LogWarning

if TYPE_CHECKING:
    from mixts.logs.fitted import Fit

__all__ = [
    "BadRows", "Example", "Fit", "LogWarning", "TaskLogs", "TaskRows", "decisions", "read_logs",
    "read_rows", "review",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    # A service writes logs and learns nothing: it need not wait for the import of learning.
    if name == "Fit":
        from mixts.logs.fitted import Fit

        return Fit
    raise AttributeError(f"module 'mixts.logs' has no attribute {name!r}")
