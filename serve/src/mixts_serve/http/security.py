"""Access control: tokens with scopes, or without tokens only programs of this machine.

A line of the token file is a token, a space, and its scopes: ``read``, ``write``, ``admin``,
separated by commas. A token alone has all scopes.
"""

from __future__ import annotations

import binascii
import hmac
import ipaddress
import os
import stat
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from mixts.errors import ParameterError
from mixts_serve.http import Scope
from mixts_serve.http.protocol import Headers
from mixts_serve.http.refusals import Header, RefusalError

SCOPES = frozenset({"read", "write", "admin"})
SAFE_LENGTH = 16
"""Characters; a shorter token may be guessed."""

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Health checks, which need no token."""

# -- response headers -----------------------------------------------------------------------------

PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Content policy of pages: charts, styles and scripts of this service only."""

SECURITY_HEADERS: tuple[Header, ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (
        b"content-security-policy",
        b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    ),
)
"""Headers of every response, unless it has its own."""


# -- tokens ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Grant:
    """Scopes of a token, which is known only by its digest."""

    scopes: frozenset[str]
    digest: bytes = field(repr=False)


class Tokens:
    """All tokens of a token file."""

    def __init__(self, grants: Sequence[Grant], warnings: Sequence[str] = ()) -> None:
        self._grants = tuple(grants)
        self.warnings = tuple(warnings)
        """Weaknesses of the file that its owner should know."""

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Tokens:
        """Return the tokens of a file; errors name the line and never the token."""
        try:
            lines = Path(path).read_text("utf-8").splitlines()
            mode = os.stat(path).st_mode
        except (OSError, UnicodeDecodeError) as error:
            raise ParameterError(f"the token file {path} cannot be read: {error}") from error
        grants: list[Grant] = []
        warnings = []
        for number, line in enumerate(lines, start=1):
            if line.strip() and not line.lstrip().startswith("#"):
                grant, is_short = _grant(line.split(), f"{path}, line {number}")
                if any(grant.digest == other.digest for other in grants):
                    raise ParameterError(f"{path}, line {number}: the token is there twice")
                grants.append(grant)
                if is_short:
                    warnings.append(
                        f"{path}, line {number}: a token of fewer than {SAFE_LENGTH} characters "
                        "may be guessed"
                    )
        if not grants:
            raise ParameterError(f"{path} has no token: expected one a line")
        if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
            warnings.append(f"other users may read {path}: run chmod 600 {path}")
        return cls(grants, warnings)

    def grant(self, token: bytes) -> Grant | None:
        """Return the scopes of a token, in a time that depends on no known token."""
        digest = sha256(token).digest()
        found = None
        for grant in self._grants:
            if hmac.compare_digest(grant.digest, digest):
                found = grant
        return found


def _grant(words: list[str], place: str) -> tuple[Grant, bool]:
    """Return the grant of one line, and whether its token is short."""
    token, *rest = words
    if not token.isascii() or not token.isprintable():
        raise ParameterError(f"{place}: a token has printable ASCII characters only")
    names = [name for name in ",".join(rest).split(",") if name]
    unknown = sorted(set(names) - SCOPES)
    if unknown or len(rest) > 1:
        raise ParameterError(
            f"{place}: after the token and a space, expected some of read,write,admin with no "
            "spaces between them, or nothing"
        )
    digest = sha256(token.encode()).digest()
    return Grant(frozenset(names) or SCOPES, digest), len(token) < SAFE_LENGTH


# -- requests -------------------------------------------------------------------------------------


class Gate:
    """Check of every request: its token and scope or, without tokens, its host and origin.

    Changes that browsers send must come from a page of this service, with tokens and without.
    """

    def __init__(self, tokens: Tokens | None, host: str = "127.0.0.1") -> None:
        self._tokens = tokens
        self._hosts = frozenset({b"localhost", b"127.0.0.1", b"[::1]", _bracketed(host).encode()})

    def use_tokens(self, tokens: Tokens) -> None:
        """Check tokens by another file, or by a new state of the same one."""
        self._tokens = tokens

    def admit(self, scope: Scope, headers: Headers) -> None:
        """Refuse a request, or put its scopes into ``scope["mixts.scopes"]``."""
        path, method = scope["path"], scope["method"]
        scope["mixts.scopes"] = SCOPES
        if self._tokens is None:
            self._check_origin(headers, method)
        elif path not in OPEN_PATHS:
            grant = self._check_token(headers, is_page(path))
            required = required_scope(method, path)
            if required not in grant.scopes:
                raise RefusalError(403, "forbidden", f"the token lacks the scope {required}")
            scope["mixts.scopes"] = grant.scopes
        if is_page(path) and method not in ("GET", "HEAD"):
            _check_own_page(headers)

    def _check_origin(self, headers: Headers, method: str) -> None:
        """Refuse requests that a web page of another site sends through a browser.

        The host must be local: another site may point a name of its own to this machine. The
        origin, which a browser adds to whatever such a page sends, must be this service.
        """
        host = headers.get(b"host", b"")
        name = host.rpartition(b":")[0] if host[-1:].isdigit() and b":" in host else host
        if name.lower() not in self._hosts and host.lower() not in self._hosts:
            raise RefusalError(
                403, "forbidden", "without tokens, the service answers only to localhost: the "
                "Host header must be localhost or a loopback address",
            )  # fmt: skip
        origin = headers.get(b"origin")
        if origin is not None and method not in ("GET", "HEAD") and origin != b"http://" + host:
            raise RefusalError(403, "forbidden", "pages of another origin may not send this")

    def _check_token(self, headers: Headers, page: bool) -> Grant:
        """Return the scopes of the request's token; refuse unknown tokens."""
        assert self._tokens is not None
        given = headers.get(b"authorization")
        token = None if given is None else _token(given, basic=page)
        grant = None if token is None else self._tokens.grant(token)
        if grant is None:
            problem = "expected a token" if given is None else "the token is not known"
            message = f"{problem}: Authorization: Bearer TOKEN"
            raise RefusalError(401, "unauthorized", message, headers=(_challenge(page),))
        return grant


def required_scope(method: str, path: str) -> str:
    """Return the scope that a request needs, whether its address exists or not."""
    if method in ("GET", "HEAD"):
        return "read"
    is_admin = path.startswith(("/v1/priors", "/v1/arms", "/arms", "/priors/"))
    return "write" if method == "POST" and not is_admin else "admin"


def is_page(path: str) -> bool:
    """Return whether browsers request this address; they can send a token only as a password."""
    return path in ("/", "/tasks", "/arms") or path.startswith(("/assets/", "/priors/"))


def _check_own_page(headers: Headers) -> None:
    """Refuse a change unless a script of this service's own pages sends it.

    Browsers add a password that they know to requests of any site. But only browsers write the
    headers Sec-Fetch-Site and Origin, so they say which site has sent a request. Browsers that do
    not send the first one over plain HTTP send the second one with every POST.
    """
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        is_own = site == b"same-origin"
    else:
        host = headers.get(b"host", b"")
        is_own = headers.get(b"origin") in (b"http://" + host, b"https://" + host)
    if not is_own:
        raise RefusalError(
            403, "forbidden", "only the dashboard itself may send this: programs use /v1"
        )


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _token(given: bytes, *, basic: bool) -> bytes | None:
    """Return the token of an Authorization header: a bearer token or, for pages, a password."""
    kind, _, value = given.partition(b" ")
    kind = kind.lower()
    if kind == b"bearer":
        return value.strip()
    if kind == b"basic" and basic:
        try:
            return b64decode(value.strip(), validate=True).partition(b":")[2]
        except binascii.Error:
            return None
    return None


def _challenge(page: bool) -> Header:
    return (b"www-authenticate", b'Basic realm="mixts"' if page else b'Bearer realm="mixts"')
