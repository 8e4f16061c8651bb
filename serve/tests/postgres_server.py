"""A temporary PostgreSQL server for tests: in a temporary folder, on a Unix socket.

    with postgres_server.running(fsync=False) as url:
        store = DecisionStore(postgres_server.database(url, "one"))

``find()`` is None where no server is installed. PostgreSQL refuses to run as root: it then runs as
the user ``postgres`` (or ``nobody``), who must be able to reach the folder. Writes are synced, as
in production, unless ``fsync=False``. Nobody else can open the folder, so the socket asks for no
password. Needs nothing of pytest: benchmarks use it as well.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urlsplit, urlunsplit

USER = "mixts"
PORT = 5432  # a part of the socket's name only: the server listens to no network
SECONDS = 60
# The kernel's limit for a socket's path is 108 bytes with the final zero, on macOS 104.
LONGEST_SOCKET = 103

SETTINGS = """
listen_addresses = ''
port = {port}
unix_socket_directories = '{folder}'
unix_socket_permissions = 0700
max_connections = 100
timezone = 'UTC'
"""
UNSYNCED = """
fsync = off
synchronous_commit = off
full_page_writes = off
"""


def find() -> Path | None:
    """Return the folder of the newest version of the server's programs, or None."""
    folders = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"),
        key=lambda folder: (len(folder.parent.name), folder.parent.name),
        reverse=True,
    )
    on_path = shutil.which("initdb")
    if on_path:
        folders.append(Path(on_path).resolve().parent)
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


@contextmanager
def running(*, fsync: bool = True, settings: str = "") -> Iterator[str]:
    """Start a server, yield the address of its database ``postgres``, and remove the server."""
    # A socket's path is short, and another user must reach it: not below pytest's own folders.
    parent: str | None = tempfile.gettempdir()
    if parent not in ("/tmp", "/dev/shm"):
        parent = "/tmp" if os.path.isdir("/tmp") else None
    folder = Path(tempfile.mkdtemp(prefix="mixts-pg-", dir=parent))
    try:
        yield start(folder, fsync=fsync, settings=settings)
    finally:
        try:
            if (folder / "data" / "postmaster.pid").exists():
                stop(folder, "immediate")
        finally:
            shutil.rmtree(folder)


def start(folder: Path, *, fsync: bool = True, settings: str = "") -> str:
    """Start a server in an empty folder, or in that of a stopped server; return its address.

    ``settings`` are more lines of a new server's postgresql.conf.
    """
    socket = folder / f".s.PGSQL.{PORT}"
    if len(os.fsencode(socket)) > LONGEST_SOCKET:
        raise ValueError(f"a socket's path has at most {LONGEST_SOCKET} bytes, got {socket}")
    data = folder / "data"
    if not data.exists():
        _own(folder)
        words = ["--auth=trust", f"--username={USER}", "--encoding=UTF8", "--locale=C", "--no-sync"]
        _run(folder, "initdb", "-D", str(data), *words)
        with (data / "postgresql.conf").open("a") as file:
            file.write(
                SETTINGS.format(folder=folder, port=PORT) + ("" if fsync else UNSYNCED) + settings
            )
    log = folder / "log"
    _run(folder, "pg_ctl", "-D", str(data), "-w", "-t", str(SECONDS), "-l", str(log), "start")
    return f"postgresql://{USER}@/postgres?host={quote(str(folder), safe='')}&port={PORT}"


def start_standby(folder: Path, main: Path) -> str:
    """Start a read replica in an empty folder, of the server in another; return its address."""
    _own(folder)
    data = folder / "data"
    words = ["-h", str(main), "-p", str(PORT), "-U", USER, "-X", "stream", "-c", "fast"]
    _run(folder, "pg_basebackup", "-D", str(data), "-R", *words)
    settings = data / "postgresql.conf"
    settings.write_text(settings.read_text().replace(str(main), str(folder)))
    return start(folder)


def stop(folder: Path, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
    """Stop the server: ``fast`` breaks connections, ``immediate`` is a crash."""
    data = str(folder / "data")
    _run(folder, "pg_ctl", "-D", data, "-w", "-t", str(SECONDS), "-m", mode, "stop")


def database(url: str, name: str) -> str:
    """Create an empty database on the server, and return its address."""
    import psycopg
    from psycopg import sql

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return urlunsplit(urlsplit(url)._replace(path="/" + quote(name, safe="")))


def clear(url: str) -> None:
    """Remove everything from a database, after breaking the connections to it."""
    import psycopg
    from psycopg import sql

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        own = "nspname !~ '^pg_' AND nspname <> 'information_schema'"
        for (name,) in connection.execute(f"SELECT nspname FROM pg_namespace WHERE {own}"):
            connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))
        connection.execute("CREATE SCHEMA public")


def _account() -> pwd.struct_passwd | None:
    """Return the user that runs the server if this process is root, otherwise None."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError("PostgreSQL does not run as root: a user `postgres` or `nobody` is needed")


def _own(folder: Path) -> None:
    account = _account()
    if account is not None:
        os.chown(folder, account.pw_uid, account.pw_gid)
    folder.chmod(0o700)


def _run(folder: Path, program: str, *words: str) -> None:
    """Run one of the server's programs, as the right user and with the settings that it needs."""
    programs = find()
    if programs is None:
        raise FileNotFoundError("no PostgreSQL server is installed: initdb was not found")
    account = _account()
    identity: dict[str, Any] = {}
    if account is not None:
        identity = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    # PGPORT, PGDATA and the like would change what is started.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
    done = subprocess.run(
        [str(programs / program), *words],
        env=environment | {"LC_ALL": "C"},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **identity,
    )
    if done.returncode != 0:
        log = folder / "log"
        said = done.stdout + (log.read_text()[-2000:] if log.exists() else "")
        raise RuntimeError(f"{program} failed with code {done.returncode}:\n{said}")
