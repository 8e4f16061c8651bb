"""Pages of a running service: functions that read the store and the decider and return HTML.

The HTTP part calls these functions and adds headers; nothing here knows of requests::

    GET /                   overview_page(decider, store, OverviewQuery.of(...), now=store.now(),
                                          address="http://127.0.0.1:8321", token=False,
                                          changes=False)
    GET /tasks?name=...     task_page(decider, store, name, now=..., address=..., token=...,
                                      imagine=read_outcomes(query))
    GET /assets/{name}      ASSETS[name]: media type and content
    POST /arms              the same as POST /v1/arms, for the form of the overview
    POST /priors/N/activate the same as POST /v1/priors/N/activate, for its button

All links are relative, so that a proxy may take a prefix off the addresses. ``OverviewQuery.of``
takes the parameters of the address as they come. Empty pages show commands with ``address``, where
the service is reached, and with a token if ``token`` is true. With ``changes``, the overview has a
form that changes arms. ``now`` is in seconds since 1970. For a task that the store has never seen,
`UnknownTaskError` is raised: respond with ``missing_page(name)`` and status 404. For a store that
cannot be read, `StoreUnavailableError` is raised: respond with ``unavailable_page(str(error))`` and
status 503.

Pages have no inline script and no inline style, and load nothing but ``ASSETS``: they work under
``default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:;
connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'``. The script
fetches the page's own address again and again: send pages with ``Cache-Control: no-store``.
"""

from mixts_serve.dashboard.imagine import read_outcomes
from mixts_serve.dashboard.layout import (
    ASSETS,
    SCRIPT,
    STYLE,
    missing_page,
    task_link,
    unavailable_page,
)
from mixts_serve.dashboard.over_time import SPANS
from mixts_serve.dashboard.overview import OverviewQuery, overview_page
from mixts_serve.dashboard.task import task_page
from mixts_serve.dashboard.worth import report_page

__all__ = [
    "ASSETS",
    "SCRIPT",
    "SPANS",
    "STYLE",
    "OverviewQuery",
    "missing_page",
    "overview_page",
    "read_outcomes",
    "report_page",
    "task_link",
    "task_page",
    "unavailable_page",
]
