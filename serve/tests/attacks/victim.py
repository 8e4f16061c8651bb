"""A server to attack: the service with a token and without a store, in a process of its own.

    python -m serve.tests.attacks.victim CONNECTIONS

It prints its port when it is ready, and serves until it is terminated. CONNECTIONS is the number of
connections that it allows.
"""

from __future__ import annotations

import sys
from hashlib import sha256

from mixts_serve.http import server
from mixts_serve.http.limits import Limits
from mixts_serve.http.security import SCOPES, Grant, Tokens

from serve.tests.unit.http.calls import FakeDecider, service


def main(connections: int) -> None:
    tokens = Tokens([Grant("client", SCOPES, sha256(b"a-token-of-some-length").digest())])
    limits = Limits(seconds=1, connections=connections)
    app = service(FakeDecider(), tokens=tokens, limits=limits)
    with server.handle_signals() as signals, server.bind("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        server.run(app, listener, signals, lambda: print(port, flush=True), limits=limits)


if __name__ == "__main__":
    main(int(sys.argv[1]))
