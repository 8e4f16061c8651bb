"""Downloads from a server of this machine: cut, continued, started anew, checked."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

import mixts
from mixts import download
from mixts.bridges.cifar100 import CIFAR100, DownloadError, PublishedFile, fetch
from mixts.errors import MixtsError

CONTENT = np.random.default_rng(1).bytes(1_000_000)


class Server(ThreadingHTTPServer):
    """Serves one file, as well or as badly as it is told."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.content = CONTENT
        self.knows_ranges = True
        self.cuts: list[int] = []  # the next answers end after so many bytes
        self.statuses: list[int] = []  # the next answers are these errors
        self.shift = 0  # pieces begin so much later than asked for
        self.redirect = ""
        self.length: int | None = -1  # what it says its length is; -1: the truth
        self.asked: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/file.tar.gz"

    def file(self, **changes: str) -> PublishedFile:
        sums = {kind: hashlib.new(kind, CONTENT).hexdigest() for kind in ("md5", "sha256")}
        settings = {"name": "file.tar.gz", "url": self.url} | sums | changes
        return PublishedFile(size=len(CONTENT), **settings)


class Answer(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server, wanted = self.server, self.headers["Range"]
        server.asked.append(wanted)
        if server.redirect:
            self.send_response(302)
            self.send_header("Location", server.redirect)
            self.end_headers()
            return
        if server.statuses:
            self.send_error(server.statuses.pop(0))
            return
        start = 0
        if wanted and server.knows_ranges:
            start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1]) + server.shift
            last = len(server.content) - 1
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{last}/{len(server.content)}")
        else:
            self.send_response(200)
        body = server.content[start:]
        length = len(body) if server.length == -1 else server.length
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body[: server.cuts.pop(0)] if server.cuts else body)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(download, "PAUSE", 0.0)
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_file_is_fetched_once(server: Server, tmp_path: Path) -> None:
    done: list[int] = []
    folder = tmp_path / "new" / "folder"
    path = fetch(server.file(), folder, done.append)
    assert path == folder / "file.tar.gz"
    assert path.read_bytes() == CONTENT
    assert done == sorted(done)
    assert done[-1] == len(CONTENT)
    assert fetch(server.file(), folder) == path
    assert server.asked == [None]
    assert [entry.name for entry in folder.iterdir()] == ["file.tar.gz"]


def test_a_cut_connection_is_continued(server: Server, tmp_path: Path) -> None:
    server.cuts = [300_000, 200_000, 0]
    assert fetch(server.file(), tmp_path).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=300000-", "bytes=500000-", "bytes=500000-"]


def test_another_command_continues(server: Server, tmp_path: Path) -> None:
    server.cuts = [400_000, 0, 0, 0, 0]
    with pytest.raises(DownloadError, match=r"400,000 of 1,000,000 bytes are kept: run the comm"):
        fetch(server.file(), tmp_path)
    assert (tmp_path / "file.tar.gz.part").read_bytes() == CONTENT[:400_000]
    assert not (tmp_path / "file.tar.gz").exists()
    server.asked.clear()
    assert fetch(server.file(), tmp_path).read_bytes() == CONTENT
    assert server.asked == ["bytes=400000-"]


def test_a_server_without_ranges_begins_anew(server: Server, tmp_path: Path) -> None:
    server.knows_ranges = False
    (tmp_path / "file.tar.gz.part").write_bytes(b"x" * 700_000)
    done: list[int] = []
    assert fetch(server.file(), tmp_path, done.append).read_bytes() == CONTENT
    assert server.asked == ["bytes=700000-"]
    assert done[0] < 700_000


def test_a_server_without_ranges_that_is_cut_every_time(server: Server, tmp_path: Path) -> None:
    """There is an end to it: nothing is gained over what was once there."""
    server.knows_ranges = False
    server.cuts = [500, 400, 500, 400, 500, 400, 500, 400]
    with pytest.raises(DownloadError, match="closed too early"):
        fetch(server.file(), tmp_path)
    assert len(server.asked) == 5


def test_another_piece_than_asked_for_begins_anew(server: Server, tmp_path: Path) -> None:
    server.shift = 10
    (tmp_path / "file.tar.gz.part").write_bytes(CONTENT[:1000])
    assert fetch(server.file(), tmp_path).read_bytes() == CONTENT
    assert server.asked == ["bytes=1000-", None]


def test_a_refused_range_begins_anew(server: Server, tmp_path: Path) -> None:
    server.statuses = [416]
    (tmp_path / "file.tar.gz.part").write_bytes(CONTENT[:1000])
    assert fetch(server.file(), tmp_path).read_bytes() == CONTENT
    assert server.asked == ["bytes=1000-", None]


def test_a_tired_server_is_asked_again(server: Server, tmp_path: Path) -> None:
    server.statuses = [503, 429, 500]
    assert fetch(server.file(), tmp_path).read_bytes() == CONTENT
    server.statuses = [503] * 4
    with pytest.raises(DownloadError, match="503"):
        fetch(server.file(), tmp_path / "other")


def test_no_such_file_is_asked_for_once(server: Server, tmp_path: Path) -> None:
    server.statuses = [404]
    with pytest.raises(DownloadError, match="the server answers HTTP Error 404"):
        fetch(server.file(), tmp_path)
    assert len(server.asked) == 1


def test_no_server(tmp_path: Path, server: Server) -> None:
    with Server() as gone:
        file = gone.file()
    with pytest.raises(DownloadError, match="could not be fetched") as found:
        fetch(file, tmp_path)
    assert isinstance(found.value, MixtsError)
    assert isinstance(found.value, OSError)


@pytest.mark.parametrize("size", [1_000_000, 999_990, 1_000_100])
@pytest.mark.parametrize("length", [-1, None])
def test_a_wrong_file_is_kept_and_named(
    server: Server, size: int, length: int | None, tmp_path: Path
) -> None:
    server.length = length
    server.content = (b"?" + CONTENT[1:] + bytes(100))[:size]
    if length == -1 and size != len(CONTENT):
        with pytest.raises(DownloadError, match=f"expected 1,000,000 bytes, .* 200 with {size}"):
            fetch(server.file(), tmp_path)
    elif size < len(CONTENT):
        with pytest.raises(DownloadError, match="999,990 of 1,000,000 bytes are kept"):
            fetch(server.file(), tmp_path)
    else:
        for _ in range(2):
            with pytest.raises(mixts.FormatError, match=r"file\.tar\.gz\.part is not .* remove it"):
                fetch(server.file(), tmp_path)
        assert (tmp_path / "file.tar.gz.part").stat().st_size == len(CONTENT)
        assert server.asked == [None]
    assert not (tmp_path / "file.tar.gz").exists()


def test_both_checksums_count(server: Server, tmp_path: Path) -> None:
    for kind in ("md5", "sha256"):
        with pytest.raises(mixts.FormatError, match=f"expected {kind} 0, got "):
            fetch(server.file(**{kind: "0"}), tmp_path / kind)


def test_a_file_without_md5_has_its_other_sum(server: Server, tmp_path: Path) -> None:
    file = replace(server.file(), md5=None)
    assert fetch(file, tmp_path).read_bytes() == CONTENT
    with pytest.raises(mixts.FormatError, match="expected sha256 0, got "):
        fetch(replace(file, sha256="0"), tmp_path)


def test_messages_name_the_option_of_the_command(server: Server, tmp_path: Path) -> None:
    file = replace(server.file(), option="--ratings")
    server.cuts = [0] * 4
    with pytest.raises(DownloadError, match="or give a copy with --ratings"):
        fetch(file, tmp_path)
    server.content = b"<html>Please log in</html>"
    with pytest.raises(DownloadError, match="give a copy with --ratings"):
        fetch(file, tmp_path)
    server.content = bytes(len(CONTENT))
    with pytest.raises(mixts.FormatError, match="give another copy with --ratings"):
        fetch(file, tmp_path)


def test_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = download.cache_folder("pictures")
    assert folder == tmp_path / "cache" / "mixts" / "pictures"
    assert folder.is_dir()
    assert download.cache_folder("pictures", tmp_path / "own") == tmp_path / "own"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert download.cache_folder("pictures") == tmp_path / ".cache" / "mixts" / "pictures"
    (tmp_path / "file").touch()
    with pytest.raises(mixts.ParameterError, match=r"cannot be made .* with --cache"):
        download.cache_folder("pictures", tmp_path / "file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(mixts.ParameterError, match="by setting XDG_CACHE_HOME"):
        download.cache_folder("pictures")


def test_a_page_in_its_place_leaves_what_was_there(server: Server, tmp_path: Path) -> None:
    server.knows_ranges = False
    server.content = b"<html>Please log in</html>"
    (tmp_path / "file.tar.gz.part").write_bytes(CONTENT[:1000])
    with pytest.raises(DownloadError, match="something on the way answers in its place"):
        fetch(server.file(), tmp_path)
    assert (tmp_path / "file.tar.gz.part").read_bytes() == CONTENT[:1000]


def test_a_damaged_file_in_the_cache_is_named(server: Server, tmp_path: Path) -> None:
    path = fetch(server.file(), tmp_path)
    path.write_bytes(CONTENT[:-1])
    with pytest.raises(mixts.FormatError, match=r"999,999 bytes, expected 1,000,000.*It is kept"):
        fetch(server.file(), tmp_path)
    assert path.read_bytes() == CONTENT[:-1]


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "ftp://host/file", "/etc/passwd", "", "https://", "http://[", "data:,x"],
)
def test_addresses_of_the_web_only(server: Server, url: str) -> None:
    with pytest.raises(mixts.ParameterError, match="begins with https:// or http://"):
        server.file(url=url)


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/file", "data:,text"])
def test_redirects_to_the_web_only(server: Server, target: str, tmp_path: Path) -> None:
    server.redirect = target
    with pytest.raises(DownloadError):
        fetch(server.file(), tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_data_sets_own_address() -> None:
    assert CIFAR100.url.startswith("https://")
    assert CIFAR100.url.endswith(f"/{CIFAR100.name}")
    assert (len(CIFAR100.md5), len(CIFAR100.sha256), CIFAR100.size) == (32, 64, 169_001_437)
