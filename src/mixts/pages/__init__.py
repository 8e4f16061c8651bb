"""One page for the reader: result objects set as a document, nothing computed."""

from mixts.bounds import Verdict
from mixts.pages.document import Claim, Figure, Report, Section, Table
from mixts.pages.page import check_installed, render, write_report

__all__ = [
    "Claim",
    "Figure",
    "Report",
    "Section",
    "Table",
    "Verdict",
    "check_installed",
    "render",
    "write_report",
]
