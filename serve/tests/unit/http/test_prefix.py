"""A service whose addresses all begin with a prefix."""

from __future__ import annotations

import pytest

from mixts.errors import ParameterError
from serve.tests.unit.http.calls import get, post, service

PREFIX = "/shop/bandit"


def test_all_is_below_the_prefix() -> None:
    app = service(prefix=PREFIX)
    assert post(app, f"{PREFIX}/v1/decide", {"task": "ada"}).status == 200
    assert get(app, f"{PREFIX}/assets/dashboard.js").status == 200
    assert get(app, f"{PREFIX}/openapi.json").json["servers"] == [{"url": PREFIX}]
    assert get(app, f"{PREFIX}{PREFIX}/healthz").status == 404
    for path in ("/", "/metrics", "/openapi.json", "/v1/priors", "/shop/bandits/healthz", "/shop"):
        answer = get(app, path)
        assert (answer.status, answer.error["code"]) == (404, "not_found")
    assert post(app, "/v1/decide", {"task": "ada"}).status == 404
    # A path that is the prefix only once it is decoded.
    assert get(app, "/shop/%62andit/healthz").status == 404


def test_health_checks_need_no_prefix() -> None:
    app = service(prefix=PREFIX)
    for path in ("/healthz", "/readyz", f"{PREFIX}/healthz", f"{PREFIX}/readyz"):
        assert get(app, path).status == 200


def test_the_prefix_alone_leads_to_the_pages() -> None:
    answer = get(service(prefix=PREFIX), PREFIX)
    assert (answer.status, answer.headers["location"]) == (308, f"{PREFIX}/")


def test_without_a_prefix_nothing_changes() -> None:
    assert get(service(), "/openapi.json").json["servers"] == [{"url": "/"}]
    assert get(service(), f"{PREFIX}/healthz").status == 404


@pytest.mark.parametrize("wrong", ["bandit", "/bandit/", "/", "//", "/a b", "/ä", "/../x", "/a?b"])
def test_a_wrong_prefix_is_refused(wrong: str) -> None:
    with pytest.raises(ParameterError, match="a path prefix is like /bandit"):
        service(prefix=wrong)
