"""Past tasks from logs: rows of files and tables become statistics, and these a checked prior."""

from mixts.logs import decisions
from mixts.logs.again import TaskRows, read_rows
from mixts.logs.bad_rows import BadRows, Example
from mixts.logs.blocks import TaskBlocks, task_blocks
from mixts.logs.fitted import Fit
from mixts.logs.read import TaskLogs, read_logs
from mixts.logs.review import review
from mixts.logs.row_faults import LogWarning
from mixts.logs.schema import LogSchema

__all__ = [
    "BadRows", "Example", "Fit", "LogSchema", "LogWarning", "TaskBlocks", "TaskLogs", "TaskRows",
    "decisions", "read_logs", "read_rows", "review", "task_blocks",
]  # fmt: skip
