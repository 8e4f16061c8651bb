"""The service behind nginx, with the configuration that the project ships.

No client without a token may fill the memory, or keep other clients waiting. uvicorn has no limits
on connections, their time and the length of heads. The proxy does.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from serve.tests.attacks.attacks import GET, MEGABYTE, Attack, Harm, ask, attacks, suffer, watching
from serve.tests.attacks.proxy import find_nginx, free_port, nginx, plain
from tests.requirements import require

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="measures memory by /proc")

CONNECTIONS = 512
"""Connections that nginx allows, fewer than the silent ones: two for each request."""

MOST_MEGABYTES = 10.0
MOST_SECONDS = 2.0
"""An honest request takes milliseconds; a test machine may pause."""
ATTACKS = attacks(silent=1000, unread=10, slow=150, n_bytes=4 * MEGABYTE)
QUICK = (
    "requests without end, responses unread", "headers without end", "a body without end",
    "silent sockets",
)  # fmt: skip
"""One attack on each limit of the proxy: `make slow` has the others, variations of these."""
assert {attack.name for attack in ATTACKS} >= set(QUICK)


@dataclass
class Victim:
    process: subprocess.Popen[str]
    port: int


@contextmanager
def started() -> Iterator[Victim]:
    process = subprocess.Popen(
        [sys.executable, "-m", "serve.tests.attacks.victim"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    yield Victim(process, int(process.stdout.readline()))
    process.terminate()
    assert process.wait(30) == 0
    process.stdout.close()


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Victim, list[int]]]:
    """A service, with the port of the proxy before it."""
    require("nginx", find_nginx() is not None, "nginx is not installed")
    port, folder = free_port(), tmp_path_factory.mktemp("nginx")
    with (
        started() as victim,
        nginx(folder, plain(port, victim.port), CONNECTIONS) as pids,
    ):
        yield Victim(victim.process, port), [victim.process.pid, *pids]


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(attack, id=attack.name, marks=() if attack.name in QUICK else pytest.mark.slow)
        for attack in ATTACKS
    ],
)
def test_an_attack_on_the_proxy_harms_nobody(
    proxied: tuple[Victim, list[int]], attack: Attack
) -> None:
    victim, pids = proxied
    harm = suffer(attack, ("127.0.0.1", victim.port), pids, 0.5)
    assert harm.grown < MOST_MEGABYTES, harm
    assert harm.delay < MOST_SECONDS, harm


def test_slow_bodies_of_one_address_stay_with_the_proxy(
    proxied: tuple[Victim, list[int]],
) -> None:
    """More requests than one address may have; other addresses are served meanwhile."""
    victim, _ = proxied
    address = "127.0.0.1", victim.port
    begin = b"POST /v1/decide HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{"
    with ExitStack() as stack:
        for _ in range(300):
            connection = stack.enter_context(socket.create_connection(address, 10))
            with contextlib.suppress(ConnectionError):
                connection.sendall(begin)
        harm = Harm()
        with watching(harm, address, source="127.0.0.2"):
            time.sleep(0.3)
        assert harm.delay < MOST_SECONDS
        assert ask(address, GET).startswith(b"HTTP/1.1 503 "), "the address has its share"
    assert ask(address, GET, source="127.0.0.2").startswith(b"HTTP/1.1 200 ")


def test_the_shipped_configuration_encrypts(tmp_path: Path) -> None:
    programs = find_nginx(), shutil.which("openssl")
    require("nginx", None not in programs, "nginx or openssl is not installed")
    key, certificate = tmp_path / "mixts.key", tmp_path / "mixts.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    make += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out"]
    subprocess.run([*make, str(certificate)], check=True, capture_output=True)
    port = free_port()
    with started() as victim:
        changes = {
            "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
            "/etc/ssl/certs/mixts.pem": str(certificate),
            "/etc/ssl/private/mixts.key": str(key),
            "127.0.0.1:8321": f"127.0.0.1:{victim.port}",
        }
        context = ssl.create_default_context(cafile=str(certificate))
        with (
            nginx(tmp_path, changes),
            socket.create_connection(("127.0.0.1", port), 10) as unsafe,
            context.wrap_socket(unsafe, server_hostname="localhost") as connection,
        ):
            connection.sendall(GET)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
