"""Shards: tasks divided over several stores, when one database is not enough.

Every task has a *slot*, 16 bits of a hash of its name, and the ids of its decisions end with it. So
whoever has the name of a task, or the id of a decision, knows the shard, and no table is kept of
who is where: of n shards, the first has the first 1/n of the slots, and so on. The hash is one that
every language has: ``printf %s visitor-7 | sha256sum | cut -c1-4`` prints a slot.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import closing
from typing import Any

from msgspec import Struct

from mixts.errors import ParameterError

SLOT_BYTES = 2
"""Of a hash, at the end of an id. The other 64 random bits of an id tell a task's decisions of one
millisecond apart: among 1,000 of them, two are alike with probability 3e-14."""

N_SLOTS = 1 << 8 * SLOT_BYTES

MOST_SHARDS = 4096
"""Each has at least 16 slots, so that none has over 1/16 more of them than another."""

_NOTE = "shard"


def slot_of(task: str) -> bytes:
    """Return the slot of a task: the first bytes of the SHA-256 of its name in UTF-8."""
    # A name that is no Unicode text is refused later, by whoever sends or decides.
    name = task.encode("utf-8", "surrogatepass")
    return hashlib.sha256(name).digest()[:SLOT_BYTES]


def slot_of_id(id: str) -> bytes:
    """Return the slot of the task of a decision; any slot for what is no id."""
    try:
        return bytes.fromhex(id)[-SLOT_BYTES:]
    except ValueError:
        return b""


def check_slot(id: str, task: str) -> None:
    """Raise ``ParameterError`` for an id by which rewards would be sent to another shard."""
    slot = slot_of(task)
    if slot_of_id(id) != slot:
        raise ParameterError(
            f"id of a decision of task {task!r} must end with {slot.hex()}, the slot of the task, "
            f"so that its rewards find the shard; got {id!r}"
        )


def place_of(slot: bytes, n_shards: int) -> int:
    """Return the index of the shard that has a slot, from 0."""
    return int.from_bytes(slot, "big") * n_shards // N_SLOTS


class Shard(Struct, frozen=True):
    """One of several stores: that of the tasks in its slots."""

    number: int
    """From 1."""
    of: int
    """Number of shards."""

    @classmethod
    def checked(cls, given: str | None) -> Shard | None:
        """Return the shard that a text such as ``2/16`` names; None: the store has all tasks."""
        if given is None:
            return None
        found = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", str(given))
        shard = cls(int(found[1]), int(found[2])) if found else cls(0, 0)
        if not (2 <= shard.of <= MOST_SHARDS and 1 <= shard.number <= shard.of):
            raise ParameterError(
                "shard must be a number and how many shards there are, from 1/2 to "
                f"{MOST_SHARDS}/{MOST_SHARDS}, such as '2/16', got {given!r}"
            )
        return shard

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def holds(self, task: str) -> bool:
        """Return whether a task belongs to this shard."""
        return place_of(slot_of(task), self.of) == self.number - 1

    def contains(self, other: Shard) -> bool:
        """Return whether all slots of another shard are in this one, as 3/8 and 4/8 are in 2/4."""
        return (
            other.of % self.of == 0 and (other.number - 1) * self.of // other.of == self.number - 1
        )

    def check(self, task: str) -> None:
        """Raise ``ParameterError`` for a task of another shard."""
        if not self.holds(task):
            belongs = Shard(place_of(slot_of(task), self.of) + 1, self.of)
            raise ParameterError(
                f"task {task!r} belongs to shard {belongs}, and this service has shard {self}: "
                f"give clients the addresses of all {self.of} shards, in their order"
            )


def kept_shard(source: Any) -> Shard | None:
    """Return which shard a store is by its note, read from it or in a transaction."""
    return Shard.checked(source.note(_NOTE))


def keep_shard(store: Any, shard: Shard | None, transact: Any) -> Shard | None:
    """Return which shard a store is, and note it; raise ``ParameterError`` if it cannot be that.

    Otherwise a task would begin anew in one store while another one has its history.
    """
    known = kept_shard(store)
    if shard is None or shard == known:
        return known
    transact(lambda transaction: _become(store, transaction, shard))
    return shard


def _become(store: Any, transaction: Any, shard: Shard) -> None:
    transaction.shape()  # for its lock: services that start together must agree
    known = kept_shard(transaction)
    if known is not None and not known.contains(shard):
        raise ParameterError(
            f"{store.name} has the tasks of shard {known}, not those of {shard}: give the shard "
            "that it is, or leave it out"
        )
    with closing(store.backend.scan("SELECT name FROM tasks")) as rows:
        other = next((name for (name,) in rows if not shard.holds(name)), None)
    if other is not None:
        raise ParameterError(
            f"{store.name} cannot become shard {shard}: it has tasks of other shards, such as "
            f"{other!r}. Begin with a new store, or erase them if another store has them"
        )
    transaction.set_note(_NOTE, str(shard))
