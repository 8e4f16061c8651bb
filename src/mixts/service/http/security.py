"""Who may do what: tokens with scopes, and on loopback without any, only this machine's programs.

A token's line in its file is the token, and what it is for: ``read``, ``write``, ``admin``, with
commas between them; the token alone is for everything.
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

from starlette.types import Scope

from mixts.errors import ParameterError
from mixts.service.http.limits import CLIENTS, Head, RateLimit
from mixts.service.http.refusals import Header, RefusalError

SCOPES = frozenset({"read", "write", "admin"})
SHORT = 16
"""Characters; a shorter token may be guessed."""

OPEN = frozenset({"/healthz", "/readyz"})
"""Whoever starts and watches services asks these, and has no token."""

CONTENT_POLICY: Header = (
    b"content-security-policy",
    b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
)
PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Of pages, which show charts and refresh themselves with what is served here."""

HEADERS: tuple[Header, ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    CONTENT_POLICY,
)
"""Of every answer."""


# -- tokens ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Grant:
    """A token, known only by its digest, and what it is for."""

    client: str
    """Its name where clients are counted."""
    scopes: frozenset[str]
    digest: bytes = field(repr=False)


class Tokens:
    """All tokens of a file."""

    def __init__(self, grants: Sequence[Grant], warnings: Sequence[str] = ()) -> None:
        self._grants = tuple(grants)
        self.warnings = tuple(warnings)
        """What whoever starts the service should know."""

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Tokens:
        """The tokens of a file; what is wrong is told by its line, never with the token."""
        try:
            lines = Path(path).read_text("utf-8").splitlines()
            mode = os.stat(path).st_mode
        except (OSError, UnicodeDecodeError) as error:
            raise ParameterError(f"the token file {path} cannot be read: {error}") from error
        grants: list[Grant] = []
        warnings = []
        for number, line in enumerate(lines, start=1):
            if line.strip() and not line.lstrip().startswith("#"):
                grant, short = _grant(line.split(), f"{path}, line {number}")
                if any(grant.digest == other.digest for other in grants):
                    raise ParameterError(f"{path}, line {number}: the token is there twice")
                grants.append(grant)
                if short:
                    warnings.append(
                        f"{path}, line {number}: a token of fewer than {SHORT} characters may be "
                        "guessed"
                    )
        if not grants:
            raise ParameterError(f"{path} has no token: expected one a line")
        if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
            warnings.append(f"others than its owner may open {path}: chmod 600 is safe")
        return cls(grants, warnings)

    def grant(self, token: bytes) -> Grant | None:
        """What a token is for, in a time that tells nothing of the tokens there are."""
        digest = sha256(token).digest()
        found = None
        for grant in self._grants:
            if hmac.compare_digest(grant.digest, digest):
                found = grant
        return found


def _grant(words: list[str], place: str) -> tuple[Grant, bool]:
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
    client = "token " + digest[:8].hex()
    return Grant(client, frozenset(names) or SCOPES, digest), len(token) < SHORT


# -- requests -------------------------------------------------------------------------------------


GUESSES = 20.0
"""Unknown tokens a second from one address."""


class Gate:
    """Lets requests in, and says whose they are.

    Tokens that are not known are counted by address. Where they are more than ``guesses`` a second,
    a token that is new to the address is refused like an unknown one: a guess that is right tells
    nothing. Those that came from there before go on.
    """

    def __init__(
        self, tokens: Tokens | None, host: str = "127.0.0.1", guesses: float = GUESSES
    ) -> None:
        self._tokens = tokens
        self._strangers = RateLimit(guesses, what="unknown tokens")
        self._admitted: set[tuple[str, bytes]] = set()
        """Addresses, and the tokens that came from there."""
        self._hosts = frozenset({b"localhost", b"127.0.0.1", b"[::1]", _bracketed(host).encode()})

    def admit(self, scope: Scope, head: Head, now: float) -> str:
        """The client's name, by which it is counted."""
        path, method = scope["path"], scope["method"]
        client = scope.get("client")
        address: str = client[0] if client else ""
        if self._tokens is None:
            self._check_origin(head, method)
        elif path not in OPEN:
            grant = self._known(head, is_page(path), address, now)
            scope_needed = needed(method, path)
            if scope_needed not in grant.scopes:
                raise RefusalError(
                    403,
                    "forbidden",
                    f"the token is not for this: it lacks the scope {scope_needed}",
                )
            return grant.client
        return address

    def _check_origin(self, head: Head, method: str) -> None:
        """Without tokens: a browser must not carry in what another site sends.

        A name that its owner points to this machine is not ours, and a page from elsewhere may send
        a request here, but must say where it comes from.
        """
        host = head.get(b"host", b"")
        name = host.rpartition(b":")[0] if host[-1:].isdigit() and b":" in host else host
        if name.lower() not in self._hosts and host.lower() not in self._hosts:
            raise RefusalError(
                403, "forbidden", "without tokens, the service answers only to localhost: the "
                "Host header must be localhost or a loopback address",
            )  # fmt: skip
        origin = head.get(b"origin")
        if origin is not None and method not in ("GET", "HEAD") and origin != b"http://" + host:
            raise RefusalError(403, "forbidden", "pages of another origin may not send this")

    def _known(self, head: Head, page: bool, address: str, now: float) -> Grant:
        """What the token that came from an address is for."""
        assert self._tokens is not None
        given = head.get(b"authorization")
        token = None if given is None else _token(given, basic=page)
        grant = None if token is None else self._tokens.grant(token)
        if grant is None:
            if given is not None:
                self._strangers.take(address, now)
            said = "expected a token" if given is None else "the token is not known"
            form = "Authorization: Bearer TOKEN"
            raise RefusalError(401, "unauthorized", f"{said}: {form}", headers=(_challenge(page),))
        if (address, grant.digest) not in self._admitted:
            self._strangers.check(address, now)
            if len(self._admitted) >= CLIENTS:
                self._admitted.clear()
            self._admitted.add((address, grant.digest))
        return grant


def needed(method: str, path: str) -> str:
    """The scope that a request needs; what is not known is for those who may read."""
    if method == "POST":
        if path.startswith("/v1/priors"):
            return "admin"
        return "write"
    return "read"


def is_page(path: str) -> bool:
    """Whether a browser asks for it, which knows passwords only."""
    return path in ("/", "/tasks") or path.startswith(("/tasks/", "/assets/"))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _token(given: bytes, *, basic: bool) -> bytes | None:
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
