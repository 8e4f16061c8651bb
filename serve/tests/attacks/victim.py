"""A server to attack: the service with a token and without a store, in a process of its own.

    python -m serve.tests.attacks.victim

It prints its port when it is ready, and serves until it is terminated.
"""

from __future__ import annotations

from hashlib import sha256

from mixts_serve.http import server
from mixts_serve.http.security import SCOPES, Grant, Tokens

from serve.tests.unit.http.calls import FakeDecider, service


def main() -> None:
    tokens = Tokens([Grant(SCOPES, sha256(b"a-token-of-some-length").digest())])
    app = service(FakeDecider(), tokens=tokens)
    with server.bind("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        server.run(app, listener, lambda: print(port, flush=True))


if __name__ == "__main__":
    main()
