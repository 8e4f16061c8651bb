from __future__ import annotations

import hmac
import logging
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from mixts_serve.http import security
from mixts_serve.http.app import ENDPOINTS
from mixts_serve.http.security import SCOPES, Tokens, is_loopback
from mixts_serve.records import PriorVersion
from mixts_serve.versions import ArmList

from mixts.errors import ParameterError
from serve.tests.unit.http.calls import ID, FakeDecider, call, get, post, service

ALL, READ, WRITE, ADMIN = (f"{name}-token-0123456789" for name in ("all", "read", "write", "admin"))


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text(
        f"# who may do what\n\n{ALL}\n{READ} read\n{WRITE}\twrite\n  {ADMIN} read,admin  \n"
    )
    path.chmod(0o600)
    return path


@pytest.fixture
def tokens(token_file: Path) -> Tokens:
    return Tokens.read(token_file)


def bearer(token: str) -> list[tuple[str, str]]:
    return [("authorization", f"Bearer {token}")]


def basic(token: str) -> list[tuple[str, str]]:
    return [("authorization", "Basic " + b64encode(f"anybody:{token}".encode()).decode())]


# -- files ----------------------------------------------------------------------------------------


def test_a_line_is_a_token_and_what_it_is_for(tokens: Tokens) -> None:
    scopes = {}
    for token in (ALL, READ, WRITE, ADMIN):
        grant = tokens.grant(token.encode())
        assert grant is not None
        scopes[token] = grant.scopes
    assert scopes == {ALL: SCOPES, READ: {"read"}, WRITE: {"write"}, ADMIN: {"read", "admin"}}
    assert tokens.grant(b"") is None
    assert tokens.grant(ALL[:-1].encode()) is None
    assert tokens.warnings == ()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "has no token"),
        ("# only a comment\n\n", "has no token"),
        ("secret-token-0123 read,fly", "line 1"),
        ("good-token-012345\nsecret-token-0123 read write", "line 2"),
        ("secret-token-0123 read, write", "line 1"),
        ("secret-töken-0123", "line 1"),
        ("secret-token-0123\nsecret-token-0123 read", "line 2"),
    ],
)
def test_a_bad_token_file_is_refused_without_repeating_a_token(
    tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "tokens"
    path.write_text(content)
    with pytest.raises(ParameterError, match=message) as refused:
        Tokens.read(path)
    assert "secret" not in str(refused.value)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="cannot be read"):
        Tokens.read(tmp_path / "none")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ParameterError, match="cannot be read"):
        Tokens.read(tmp_path / "binary")


def test_what_makes_tokens_less_secret_is_warned_of(token_file: Path) -> None:
    token_file.chmod(0o644)
    token_file.write_text("short\n")
    warnings = " ".join(Tokens.read(token_file).warnings)
    assert "chmod 600" in warnings
    assert "guessed" in warnings
    assert "short" not in warnings


def test_tokens_are_compared_in_constant_time_and_all_of_them(
    tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[bytes, bytes]] = []
    original = hmac.compare_digest

    def compare(mine: bytes, given: bytes) -> bool:
        compared.append((mine, given))
        return original(mine, given)

    monkeypatch.setattr(security.hmac, "compare_digest", compare)
    assert tokens.grant(ALL.encode()) is not None
    assert len(compared) == 4
    assert {len(part) for pair in compared for part in pair} == {32}


# -- scopes ---------------------------------------------------------------------------------------


def status(tokens: Tokens, method: str, path: str, headers: list[tuple[str, str]]) -> int:
    protected = service(tokens=tokens)
    body = b'{"task": "t"}' if path == "/v1/decide" else b'{"id": "%s", "value": 1}' % ID.encode()
    given = [*headers, ("content-type", "application/json")]
    return call(protected, method, path, body, given, host="service.example").status


@pytest.mark.parametrize("path", ["/v1/decide", "/v1/reward"])
def test_decisions_and_rewards_need_write(tokens: Tokens, path: str) -> None:
    answers = {
        token: status(tokens, "POST", path, bearer(token)) for token in (ALL, READ, WRITE, ADMIN)
    }
    assert answers == {ALL: 200, READ: 403, WRITE: 200, ADMIN: 403}


@pytest.mark.parametrize("path", ["/openapi.json", "/assets/nothing.css", "/nowhere"])
def test_looking_needs_read(tokens: Tokens, path: str) -> None:
    found = 200 if path == "/openapi.json" else 404
    answers = {
        token: status(tokens, "GET", path, bearer(token)) for token in (ALL, READ, WRITE, ADMIN)
    }
    assert answers == {ALL: found, READ: found, WRITE: 403, ADMIN: found}


@pytest.mark.parametrize("path", ["/v1/priors", "/v1/priors/1/activate"])
def test_changing_the_prior_needs_admin(tokens: Tokens, path: str) -> None:
    assert [status(tokens, "POST", path, bearer(token)) for token in (READ, WRITE)] == [403, 403]


def test_every_endpoint_needs_the_scope_that_its_document_names() -> None:
    for endpoint in ENDPOINTS:
        if endpoint.scope is not None:
            assert security.required_scope(endpoint.method, endpoint.path) == endpoint.scope
        assert (endpoint.scope is None) == (endpoint.path in security.OPEN_PATHS)


@pytest.mark.parametrize("method", ["DELETE", "PUT", "PATCH"])
def test_other_methods_need_admin(method: str) -> None:
    assert security.required_scope(method, "/v1/tasks/u17") == "admin"


def test_the_refusal_names_the_missing_scope(tokens: Tokens) -> None:
    answer = post(service(tokens=tokens), "/v1/decide", {"task": "t"}, headers=bearer(READ))
    assert answer.error["code"] == "forbidden"
    assert "write" in answer.error["message"]


@pytest.mark.parametrize(
    "headers",
    [
        [], bearer("wrong"), bearer(""), basic(ALL), [("authorization", ALL)],
        [("authorization", f"Token {ALL}")], [("authorization", "Bearer")], bearer("\xff" * 30),
    ],
)  # fmt: skip
def test_without_a_good_token_there_is_no_way_in(
    tokens: Tokens, headers: list[tuple[str, str]], caplog: pytest.LogCaptureFixture
) -> None:
    decider = FakeDecider()
    with caplog.at_level(logging.DEBUG):
        answer = post(service(decider, tokens=tokens), "/v1/decide", {"task": "t"}, headers=headers)
    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert decider.submitted == []
    assert ALL not in caplog.text
    assert ALL.encode() not in answer.body


def test_a_browser_may_give_the_token_as_a_password_for_pages_only(tokens: Tokens) -> None:
    protected = service(tokens=tokens)
    for path in ("/", "/tasks?name=u17", "/tasks", "/assets/x"):
        answer = get(protected, path)
        assert answer.status == 401
        assert answer.headers["www-authenticate"].startswith("Basic")
    assert get(protected, "/assets/x", headers=basic(READ)).status == 404
    assert get(protected, "/assets/x", headers=basic(WRITE)).status == 403
    assert get(protected, "/assets/x", headers=basic("wrong")).status == 401
    assert get(protected, "/assets/x", headers=[("authorization", "Basic !!!")]).status == 401
    assert get(protected, "/openapi.json", headers=basic(READ)).status == 401


def test_health_is_open(tokens: Tokens) -> None:
    protected = service(tokens=tokens)
    assert get(protected, "/healthz", host=None).status == 200
    assert get(protected, "/readyz", host=None).status == 200


def test_a_header_that_comes_twice_is_refused(tokens: Tokens) -> None:
    answer = get(service(tokens=tokens), "/openapi.json", headers=bearer(READ) + bearer("wrong"))
    assert (answer.status, answer.error["code"]) == (400, "bad_request")


# -- guessing -------------------------------------------------------------------------------------


# -- without tokens -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", 200), ("127.0.0.1:8321", 200), ("localhost:80", 200), ("LocalHost", 200),
        ("[::1]:8321", 200), ("[::1]", 200), ("127.0.0.7:8321", 200),
        ("evil.example", 403), ("evil.example:8321", 403), ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example:80", 403), ("", 403), (None, 403), ("::1", 403),
        ("evil.example:127.0.0.1", 403),
    ],
)  # fmt: skip
def test_without_tokens_only_names_of_this_machine_are_answered(
    host: str | None, expected: int
) -> None:
    """A page whose name its owner points at 127.0.0.1 reads nothing and changes nothing."""
    here = service(host="127.0.0.7")
    assert get(here, "/openapi.json", host=host).status == expected
    assert post(here, "/v1/decide", {"task": "t"}, host=host).status == expected


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("http://127.0.0.1:8321", 200), ("http://evil.example", 403), ("null", 403),
        ("http://127.0.0.1", 403), ("https://127.0.0.1:8321", 403), ("http://localhost:8321", 403),
    ],
)  # fmt: skip
def test_without_tokens_pages_of_another_origin_change_nothing(origin: str, expected: int) -> None:
    decider = FakeDecider()
    here = service(decider)
    answer = post(here, "/v1/decide", {"task": "t"}, headers=[("origin", origin)])
    assert answer.status == expected
    assert len(decider.submitted) == (expected == 200)
    assert get(here, "/openapi.json", headers=[("origin", origin)]).status == 200


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True),
        ("0.0.0.0", False), ("::", False), ("10.0.0.1", False), ("service.example", False),
        ("", False), ("localhost.evil.example", False),
    ],
)  # fmt: skip
def test_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


# -- tokens that change ---------------------------------------------------------------------------


def test_tokens_may_be_replaced(tokens: Tokens, token_file: Path) -> None:
    running = service(tokens=tokens)
    assert get(running, "/openapi.json", headers=bearer(READ)).status == 200
    token_file.write_text("another-token-0123456789\n")
    running.use_tokens(Tokens.read(token_file))
    assert get(running, "/openapi.json", headers=bearer(READ)).status == 401
    headers = bearer("another-token-0123456789")
    assert get(running, "/openapi.json", headers=headers).status == 200


# -- headers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/decide"), ("GET", "/healthz"), ("GET", "/nowhere"), ("PUT", "/v1/priors")],
)
def test_every_answer_has_the_headers_that_browsers_obey(method: str, path: str) -> None:
    headers: Any = call(service(), method, path, b"").headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "server" not in headers
    assert not any(name.startswith("access-control") for name in headers)


# -- changes by the dashboard ---------------------------------------------------------------------

OWN = [("sec-fetch-site", "same-origin"), ("origin", "http://127.0.0.1:8321")]
CHANGE = {"add": ["tea"]}


class ArmDecider(FakeDecider):
    """Remembers the changes of arms."""

    changes: list[Any]

    def change_arms(self, **changes: Any) -> ArmList:
        self.changes = [*getattr(self, "changes", []), changes]
        return ArmList(2, ())


def changed(headers: list[tuple[str, str]], tokens: Tokens | None = None, **options: Any) -> int:
    """Return the status of a change; only a change that is let in reaches the decider."""
    decider = ArmDecider()
    answer = post(service(decider, tokens=tokens), "/arms", CHANGE, headers=headers, **options)
    assert hasattr(decider, "changes") == (answer.status == 200)
    return answer.status


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (OWN, 200),
        (OWN[:1], 200),
        (OWN[1:], 200),
        ([], 403),
        ([("sec-fetch-site", "cross-site"), OWN[1]], 403),
        ([("sec-fetch-site", "same-site")], 403),
        ([("sec-fetch-site", "none")], 403),
        ([("origin", "http://evil.example")], 403),
        ([("origin", "http://127.0.0.1:9999")], 403),
        ([("origin", "null")], 403),
    ],
)
def test_only_a_page_of_the_service_changes_arms_with_a_password(
    tokens: Tokens, headers: list[tuple[str, str]], expected: int
) -> None:
    assert changed(headers) == expected
    assert changed([*headers, *basic(ADMIN)], tokens) == expected
    assert changed([*headers, *bearer(ADMIN)], tokens) == expected


def test_a_change_by_the_dashboard_needs_admin(tokens: Tokens) -> None:
    found = {token: changed([*OWN, *basic(token)], tokens) for token in (ALL, READ, WRITE, ADMIN)}
    assert found == {ALL: 200, READ: 403, WRITE: 403, ADMIN: 200}
    assert changed(OWN, tokens) == 401
    assert changed([*OWN, *basic("wrong")], tokens) == 401


class PriorDecider(FakeDecider):
    """Has two versions of the prior, and notes which one is activated."""

    def priors(self) -> list[PriorVersion]:
        return [PriorVersion(v, 0.0, v == 1, "bernoulli-arms", 1) for v in (1, 2)]

    def activate_prior(self, version: int, force: bool = False) -> None:
        self.activated = version


def test_only_admins_activate_a_prior_by_the_page(tokens: Tokens) -> None:
    found = {}
    cross = [("sec-fetch-site", "cross-site")]
    for name, headers in {
        "own": [*OWN, *basic(ADMIN)], "write": [*OWN, *basic(WRITE)], "none": OWN,
        "other site": [*cross, *basic(ADMIN)], "program": basic(ADMIN),
    }.items():  # fmt: skip
        decider = PriorDecider()
        path = "/priors/2/activate"
        found[name] = call(service(decider, tokens=tokens), "POST", path, b"", headers).status
        assert getattr(decider, "activated", None) == (2 if found[name] == 200 else None)
    assert found == {"own": 200, "write": 403, "none": 401, "other site": 403, "program": 403}


def test_a_name_that_points_to_this_machine_changes_no_arms() -> None:
    rebound = [("sec-fetch-site", "same-origin"), ("origin", "http://evil.example:8321")]
    assert changed(rebound, host="evil.example:8321") == 403


def test_a_proxy_may_add_tls_and_replace_the_host(tokens: Tokens) -> None:
    behind = [("origin", "https://decisions.example"), *basic(ADMIN)]
    assert changed(behind, tokens, host="decisions.example") == 200
    assert changed(behind, tokens, host="10.0.0.7:8321") == 403
    assert changed([OWN[0], *behind], tokens, host="10.0.0.7:8321") == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
def test_what_a_form_of_another_site_can_send_changes_no_arms(kind: str | None) -> None:
    headers = OWN if kind is None else [*OWN, ("content-type", kind)]
    assert call(service(ArmDecider()), "POST", "/arms", b'{"add": ["tea"]}', headers).status == 415


def test_the_browser_is_not_told_that_other_sites_may_send_changes(tokens: Tokens) -> None:
    asking = [("origin", "http://evil.example"), ("access-control-request-method", "POST")]
    for guarded in (service(ArmDecider()), service(ArmDecider(), tokens=tokens)):
        answer = call(guarded, "OPTIONS", "/arms", headers=asking)
        assert answer.status in (401, 403)
        assert not any(name.startswith("access-control") for name in answer.headers)
