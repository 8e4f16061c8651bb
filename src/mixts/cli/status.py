"""How a command ends, as a number."""

from __future__ import annotations

FAILED = 1
"""A full disk, or anything else that the system refuses."""
WRONG_USE = 2
"""Arguments or files that are refused, as argparse has it."""
INTERRUPTED = 130
"""By Ctrl-C, or by being told to end."""
