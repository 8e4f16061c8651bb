"""Downloads from a server on this machine: once, repeated where they fail, checked."""

from __future__ import annotations

import hashlib
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from mixts_paper import studies
from mixts_paper.studies import DownloadError, PublishedFile, cache_folder, fetch
from mixts_paper.studies.cifar100 import CIFAR100

import mixts
from mixts.errors import MixtsError

CONTENT = np.random.default_rng(1).bytes(1_000_000)


class Server(ThreadingHTTPServer):
    """Serves one file, or fails in the way that a test chooses."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.content = CONTENT
        self.cuts: list[int] = []  # the next responses end after so many bytes
        self.statuses: list[int] = []  # the next responses are these errors
        self.redirect = ""
        self.n_requests = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/file.tar.gz"

    def file(self, **changes: str) -> PublishedFile:
        sha256 = hashlib.sha256(CONTENT).hexdigest()
        return PublishedFile(**{"name": "file.tar.gz", "url": self.url, "sha256": sha256} | changes)


class Answer(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server = self.server
        server.n_requests += 1
        if server.redirect:
            self.send_response(302)
            self.send_header("Location", server.redirect)
            self.end_headers()
            return
        if server.statuses:
            self.send_error(server.statuses.pop(0))
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(server.content)))
        self.end_headers()
        self.wfile.write(server.content[: server.cuts.pop(0)] if server.cuts else server.content)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_file_is_downloaded_once(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    path = fetch(server.file(), folder)
    assert path == folder / "file.tar.gz"
    assert path.read_bytes() == CONTENT
    assert fetch(server.file(), folder) == path
    assert server.n_requests == 1
    assert [entry.name for entry in folder.iterdir()] == ["file.tar.gz"]


def test_a_failed_download_is_repeated(server: Server, tmp_path: Path) -> None:
    server.statuses = [503, 500]
    assert fetch(server.file(), tmp_path / "one").read_bytes() == CONTENT
    server.cuts = [300_000]
    assert fetch(server.file(), tmp_path / "two").read_bytes() == CONTENT
    server.statuses = [503] * (studies.RETRIES + 1)
    with pytest.raises(DownloadError, match=r"503.* or give a copy with --data"):
        fetch(server.file(), tmp_path / "three")
    assert not list((tmp_path / "three").iterdir())


def test_no_server(tmp_path: Path, server: Server) -> None:
    with Server() as gone:
        file = replace(gone.file(), option="--ratings")
    with pytest.raises(DownloadError, match="or give a copy with --ratings") as found:
        fetch(file, tmp_path)
    assert isinstance(found.value, MixtsError)
    assert isinstance(found.value, OSError)


def test_another_file_in_its_place_is_refused(server: Server, tmp_path: Path) -> None:
    server.content = b"<html>Please log in</html>"
    file = replace(server.file(), option="--ratings")
    with pytest.raises(mixts.errors.FormatError, match="give another copy with --ratings"):
        fetch(file, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_damaged_file_in_the_cache_is_replaced(server: Server, tmp_path: Path) -> None:
    path = fetch(server.file(), tmp_path)
    path.write_bytes(CONTENT[:-1])
    assert fetch(server.file(), tmp_path).read_bytes() == CONTENT
    assert server.n_requests == 2


def test_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = cache_folder("pictures")
    assert folder == tmp_path / "cache" / "mixts" / "pictures"
    assert folder.is_dir()
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder("pictures") == tmp_path / ".cache" / "mixts" / "pictures"
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(mixts.errors.ParameterError, match="by setting XDG_CACHE_HOME"):
        cache_folder("pictures")


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/file", "data:,text"])
def test_redirects_to_the_web_only(server: Server, target: str, tmp_path: Path) -> None:
    server.redirect = target
    with pytest.raises(DownloadError):
        fetch(server.file(), tmp_path)
    assert not list(tmp_path.iterdir())


def test_without_pooch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(mixts.errors.MissingExtraError, match=r"mixts-paper\[studies\]"):
        fetch(CIFAR100, tmp_path)


def test_the_data_sets_own_address() -> None:
    assert CIFAR100.url.startswith("https://")
    assert CIFAR100.url.endswith(f"/{CIFAR100.name}")
    assert len(CIFAR100.sha256) == 64
