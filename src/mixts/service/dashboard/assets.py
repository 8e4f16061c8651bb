"""What pages need beside themselves: one style sheet and a few lines of script."""

from __future__ import annotations

from importlib import resources

_SHARED = ("page", "tables", "prior")
"""Of the report's style: colours, letters, tables, and drawings in their rows."""
_OWN = ("dashboard", "lists", "charts")


def _style() -> str:
    report = resources.files("mixts.pages") / "templates" / "style"
    own = resources.files("mixts.service.dashboard") / "files"
    files = [report / f"{name}.css" for name in _SHARED] + [own / f"{name}.css" for name in _OWN]
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


STYLE = _style()
SCRIPT = (resources.files("mixts.service.dashboard") / "files" / "dashboard.js").read_text("utf-8")

ASSETS = {
    "dashboard.css": ("text/css; charset=utf-8", STYLE.encode()),
    "dashboard.js": ("text/javascript; charset=utf-8", SCRIPT.encode()),
}
"""By name: the media type and the content."""
