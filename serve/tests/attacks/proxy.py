"""nginx with the configuration that the project ships, before a service on this machine."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

DEPLOY = Path(__file__).parents[2] / "deploy"
SHIPPED = DEPLOY / "nginx.conf"

MAIN = """\
pid {folder}/nginx.pid;
error_log {folder}/error.log;
worker_processes 1;
daemon off;
events {{ worker_connections {connections}; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/mixts.conf;
}}
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def find_nginx() -> str | None:
    """Return the path of nginx, or None."""
    return shutil.which("nginx", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"]))


def plain(port: int, service: int) -> dict[str, str]:
    """Return the changes for a proxy without TLS on one port of this machine, before another."""
    return {
        "listen 443 ssl": f"listen 127.0.0.1:{port}",
        "    ssl_certificate /etc/ssl/certs/mixts.pem;\n": "",
        "    ssl_certificate_key /etc/ssl/private/mixts.key;\n": "",
        "127.0.0.1:8321": f"127.0.0.1:{service}",
    }


@contextmanager
def nginx(
    folder: Path, changes: Mapping[str, str], connections: int = 768, shipped: Path = SHIPPED
) -> Iterator[list[int]]:
    """Run nginx with a shipped configuration, but for these changes; yield its processes."""
    program = find_nginx()
    assert program is not None
    text = shipped.read_text()
    for old, new in changes.items():
        assert old in text, f"{shipped} has no {old!r} any more"
        text = text.replace(old, new)
    (folder / "mixts.conf").write_text(text)
    (folder / "nginx.conf").write_text(MAIN.format(folder=folder, connections=connections))
    process = subprocess.Popen([program, "-c", str(folder / "nginx.conf"), "-p", str(folder)])
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        deadline = time.monotonic() + 20
        while not children.read_text():
            assert process.poll() is None, "nginx did not start"
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield [process.pid, *map(int, children.read_text().split())]
    finally:
        process.terminate()
        process.wait(20)
