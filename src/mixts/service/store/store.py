"""The store of decisions: one name for whatever database holds them."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Self

from mixts.errors import StoreError
from mixts.service.store.backend import Backend
from mixts.service.store.reading import Reading

_POSTGRES = ("postgresql://", "postgres://")


class DecisionStore(Reading):
    """An append-only log of decisions and rewards with the tasks' statistics, always in step.

    ``DecisionStore("decisions.db")`` is a SQLite file, made if it is not there;
    ``DecisionStore("postgresql://...")`` a PostgreSQL database that several processes share. A file
    that is damaged, of somebody else or of a newer mixts is refused and left as it is. With
    ``create=False``, so is an address with no store.
    """

    def __init__(self, path_or_url: str | os.PathLike[str], *, create: bool = True) -> None:
        self._use(_open(path_or_url, create))

    @classmethod
    def on(cls, backend: Backend) -> Self:
        """A store in a database that is open already."""
        store = cls.__new__(cls)
        store._use(backend)
        return store

    def _use(self, backend: Backend) -> None:
        super().__init__(backend)
        self.backend = backend
        self._decider: object | None = None

    @property
    def name(self) -> str:
        """The path, or the address without its password."""
        return self.backend.name

    def claim(self, decider: object) -> None:
        """A decider writes to the store by a thread of its own: there can be only one."""
        if self._decider is not None:
            raise StoreError(f"{self.name} has a Decider already: close that one first")
        self._decider = decider

    def release(self, decider: object) -> None:
        """A decider that is closed makes room for another."""
        if self._decider is decider:
            self._decider = None

    def close(self) -> None:
        """Let go of the database; a decider on it is to be closed first."""
        self.backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"DecisionStore({self.name!r})"


def _open(path_or_url: str | os.PathLike[str], create: bool) -> Backend:
    if isinstance(path_or_url, str) and path_or_url.startswith(_POSTGRES):
        from mixts.service.store.postgres import PostgresBackend

        return PostgresBackend(path_or_url, create=create)
    if isinstance(path_or_url, str) and "://" in path_or_url:
        raise StoreError(
            "a store is a path or an address that begins with postgresql://, "
            f"got one that begins with {path_or_url.partition('://')[0]}://"
        )
    if not create and not os.path.exists(path_or_url):
        raise StoreError(f"{os.fspath(path_or_url)} does not exist")
    from mixts.service.store.sqlite import SQLiteBackend

    return SQLiteBackend(path_or_url)
