"""Past tasks from log files: rows of CSV or Parquet, streamed into statistics."""

from mixts.logs.bad_rows import BadRows, Example
from mixts.logs.read import TaskLogs, read_logs
from mixts.logs.review import review
from mixts.logs.row_faults import LogWarning
from mixts.logs.selected import TaskRows, read_rows

__all__ = [
    "BadRows", "Example", "LogWarning", "TaskLogs", "TaskRows", "read_logs", "read_rows", "review",
]  # fmt: skip
