"""HTML pages: reports of experiments, the page of a learned prior, and the kit of the dashboard.

``document`` has the parts of a report, ``page`` the templates, ``formats`` the text of numbers,
times and names, ``kinds`` a prior in words. ``position`` and ``spread`` place marks and labels.
"""

from mixts._numbers import spread
from mixts.pages import formats
from mixts.pages.document import Claim, Figure, Report, Section, Table, Verdict
from mixts.pages.effects import Effect, effects_of
from mixts.pages.kinds import MOST_ITEMS, Kind, descriptions_of, kinds_of, position
from mixts.pages.page import (
    check_installed,
    new_environment,
    render,
    write_report,
)

__all__ = [
    "MOST_ITEMS",
    "Claim",
    "Effect",
    "Figure",
    "Kind",
    "Report",
    "Section",
    "Table",
    "Verdict",
    "check_installed",
    "descriptions_of",
    "effects_of",
    "formats",
    "kinds_of",
    "new_environment",
    "position",
    "render",
    "spread",
    "write_report",
]
