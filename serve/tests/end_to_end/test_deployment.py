"""The parts of ``serve/deploy/compose.yaml`` as processes of this machine, from the same files.

The database, the service, the proxy with TLS, and Prometheus with its alerts are started by hand:
what differs are addresses, and the paths of files.
"""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from mixts_serve import Client
from mixts_serve.client import ServiceError

from serve.tests import postgres_server
from serve.tests.attacks.proxy import find_nginx, free_port, nginx
from serve.tests.contracts.stores import arms
from serve.tests.unit.commands.test_serve import CODE
from serve.tests.unit.store.faulty_store import wait_until
from serve.tests.unit.test_deploy_files import DEPLOY, compose
from tests.requirements import require

PREFIX = "/shop/bandit"
TOKENS = {"all": "an-admin-of-this-shop", "read": "prometheus-reads-this read"}


def certify(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for this machine, signed by itself; return it and its key."""
    key, certificate = folder / "mixts.key", folder / "mixts.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    make += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out"]
    subprocess.run([*make, str(certificate)], check=True, capture_output=True)
    return certificate, key


def command(folder: Path, database: str, port: int) -> list[str]:
    """Return the command of the compose file for this machine."""
    changes = {
        "postgresql://mixts@postgres/mixts": database, "/etc/mixts": str(folder),
        "--host=0.0.0.0": "--host=127.0.0.1",
    }  # fmt: skip
    words = compose()["services"]["mixts"]["command"]
    for old, new in changes.items():
        assert any(old in word for word in words)
        words = [word.replace(old, new) for word in words]
    return [*words, f"--port={port}", f"--path-prefix={PREFIX}"]


@contextmanager
def running(words: list[str], log: Path) -> Iterator[subprocess.Popen[str]]:
    with log.open("w") as errors, subprocess.Popen(words, stderr=errors, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(30)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int, str]]:
    """The folder of the deployment, the port of the service, and the address of the proxy."""
    programs = find_nginx(), shutil.which("openssl")
    require("nginx", None not in programs, "nginx or openssl is not installed")
    require("postgres", postgres_server.find() is not None, "no PostgreSQL server is installed")
    folder, (port, public) = tmp_path_factory.mktemp("deploy"), (free_port(), free_port())
    arms().save(folder / "prior.json")
    (folder / "tokens.txt").write_text("\n".join(TOKENS.values()))
    (folder / "tokens.txt").chmod(0o600)
    certificate, key = certify(folder)
    changes = {
        "listen 443 ssl": f"listen 127.0.0.1:{public} ssl",
        "/etc/ssl/certs/mixts.pem": str(certificate), "/etc/ssl/private/mixts.key": str(key),
        "127.0.0.1:8321": f"127.0.0.1:{port}",
    }  # fmt: skip
    with ExitStack() as stack:
        url = stack.enter_context(postgres_server.running(fsync=False))
        words = command(folder, postgres_server.database(url, "mixts"), port)
        serve = [sys.executable, "-c", CODE, "serve", *words]
        stack.enter_context(running(serve, folder / "serve.log"))
        stack.enter_context(nginx(folder, changes))
        # A busy machine may need longer than one wait.
        assert wait_until(lambda: is_ready(port)) or wait_until(lambda: is_ready(port))
        yield folder, port, f"https://localhost:{public}"


def is_ready(port: int) -> bool:
    """Return whether the health check of the container passes."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=4) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def client_of(folder: Path, url: str, token: str) -> Client:
    context = ssl.create_default_context(cafile=str(folder / "mixts.pem"))
    return Client(url, token, timeout=60, transport=httpx.HTTPTransport(verify=context))


@pytest.mark.slow
def test_a_client_decides_through_the_proxy(site: tuple[Path, int, str]) -> None:
    folder, _, url = site
    with client_of(folder, url + PREFIX, TOKENS["all"]) as client:
        empty = client._http.get(f"{url}{PREFIX}/", timeout=60)
        assert f"curl {url}{PREFIX}/v1/decide" in empty.text
        made = client.decide("ada")
        assert not client.reward(made.id, 1.0).duplicate
        assert client.task("ada").rewards == 1
        assert client.ready()
        address = f"{PREFIX}/openapi.json"
        assert client._http.get(url + address, timeout=60).json()["servers"] == [{"url": PREFIX}]
        page = client._http.get(f"{url}{PREFIX}/", timeout=60)
        assert page.status_code == 200
        assert "assets/dashboard.js" in page.text
        assert client._http.get(f"{url}/").status_code == 404
        moved = client._http.get(url + PREFIX)
        assert (moved.status_code, moved.headers["location"]) == (308, f"{PREFIX}/")
    with (
        client_of(folder, url + PREFIX, "somebody-elses-token") as stranger,
        pytest.raises(ServiceError, match="token"),
    ):
        stranger.decide("ada")
    lines = (folder / "serve.log").read_text().splitlines()
    assert all({"time", "level", "message"} <= json.loads(line).keys() for line in lines)


@pytest.mark.slow
def test_prometheus_reads_the_service_and_judges_it(site: tuple[Path, int, str]) -> None:
    program = shutil.which("prometheus")
    require("prometheus", program is not None, "prometheus is not installed")
    folder, port, _ = site
    text = (DEPLOY / "prometheus/prometheus.yml").read_text()
    changes = {
        "mixts:8321": f"127.0.0.1:{port}", "15s": "1s",
        "metrics_path: /metrics": f"metrics_path: {PREFIX}/metrics",
    }  # fmt: skip
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    (folder / "prometheus.yml").write_text(text)
    shutil.copy(DEPLOY / "prometheus/rules.yml", folder)
    (folder / "metrics-token.txt").write_text(TOKENS["read"].split()[0])
    listen = free_port()
    words = [str(program), f"--config.file={folder}/prometheus.yml"]
    words += [f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{listen}"]

    def ask(path: str) -> Any:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{listen}/api/v1/{path}") as answer:
                return json.load(answer)["data"]
        except OSError:
            return None

    def value(expression: str) -> str | None:
        found = (ask(f"query?query={expression}") or {}).get("result")
        return found[0]["value"][1] if found else None

    def rules() -> Any:
        return ask("rules")["groups"][0]["rules"]

    with running(words, folder / "prometheus.log"):
        assert wait_until(lambda: value("up") == "1")
        assert wait_until(lambda: value("mixts_writable") == "1")
        assert wait_until(lambda: {rule["health"] for rule in rules()} == {"ok"})
        assert [rule["state"] for rule in rules()] == ["inactive"] * 9
