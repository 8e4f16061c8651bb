"""HTML pages: reports of experiments, the page of a learned prior, and the kit of the dashboard.

``document`` has the parts of a report, ``page`` the templates, ``formats`` the text of numbers,
times and names, ``charts`` the drawings of live pages, ``kinds`` a prior in words.
"""

from mixts.bounds import Verdict
from mixts.pages.document import Claim, Figure, Report, Section, Table
from mixts.pages.kinds import MOST_ITEMS, Kind, descriptions_of, kinds_of
from mixts.pages.page import (
    PriorPage,
    check_installed,
    render,
    render_prior_page,
    write_prior_page,
    write_report,
)

__all__ = [
    "MOST_ITEMS",
    "Claim",
    "Figure",
    "Kind",
    "PriorPage",
    "Report",
    "Section",
    "Table",
    "Verdict",
    "check_installed",
    "descriptions_of",
    "kinds_of",
    "render",
    "render_prior_page",
    "write_prior_page",
    "write_report",
]
