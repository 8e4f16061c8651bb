"""The pages to look at: plain functions from what is stored and believed to HTML.

The HTTP part calls these and adds the headers; nothing here knows of requests::

    GET /                   overview_page(decider, store, now=time.time(), search=..., offset=...,
                                          span=..., address="http://127.0.0.1:8321", token=False)
    GET /tasks/{name}       task_page(decider, store, name, now=..., address=..., token=...)
    GET /tasks?name=...     the same: browsers resolve the names "." and ".." of a path away
    GET /assets/{name}      ASSETS[name]: media type and content

A name in a path is percent-encoded whole, its slashes too. ``search``, ``offset`` and ``span`` are
the overview's query parameters as they come: a span that is not one of ``SPANS`` is the hour, an
offset that is no number is 0. ``address`` is where the service is reached and ``token`` whether it
asks for one: both are only shown, in the commands of empty pages. ``now`` is in seconds since 1970.
A task that the store has never seen raises ``UnknownTaskError``: answer ``missing_page(name)`` with
404. A store that cannot be read raises ``StoreUnavailableError``: answer
``unavailable_page(str(error))`` with 503.

Pages have no inline script and no inline style, and ask for nothing but ``ASSETS``: they work under
``default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:;
connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'``. The script
fetches the page's own address again and again, so send pages with ``Cache-Control: no-store``.
"""

from mixts.service.dashboard.assets import ASSETS, SCRIPT, STYLE
from mixts.service.dashboard.overview import SPANS
from mixts.service.dashboard.pages import missing_page, overview_page, task_page, unavailable_page
from mixts.service.dashboard.wording import task_link

__all__ = [
    "ASSETS",
    "SCRIPT",
    "SPANS",
    "STYLE",
    "missing_page",
    "overview_page",
    "task_link",
    "task_page",
    "unavailable_page",
]
