"""Tables and queries of databases, as lazy tables: DuckDB files, and all that Ibis connects to."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

from mixts.errors import MissingExtraError, MixtsError, ParameterError

_PASSWORD = re.compile(
    r"(?<=://)([^/@:\s]*):\S*@|(?<=[?&])(\w*(?:password|token|secret)\w*=)[^&\s]*", re.IGNORECASE
)


def opened(places: Sequence[str], table: str | None, query: str | None) -> Any:
    """Return the table or the query of a database, or the places if they are files.

    Parameters
    ----------
    places
        Files; or one database: a DuckDB file, or an address such as ``postgresql://host/name``.
    table, query
        Name of a table, or a query in the SQL of the database; None and None for files.
    """
    if table is None and query is None:
        for place in places:
            if "://" in place or _is_duckdb(place):
                raise ParameterError(
                    f"{without_password(place)} is a database: say which rows by --table NAME or "
                    "--query SQL"
                )
        return places
    option = "--query" if table is None else "--table"
    if len(places) != 1:
        raise ParameterError(f"{option} needs one database, got {len(places)} places of logs")
    (place,) = places
    is_address = "://" in place
    if not is_address and not os.path.isfile(place):
        raise ParameterError(
            f"{option} needs a DuckDB file or an address such as postgresql://host/name, and there "
            f"is no file {place}"
        )
    if is_address:
        _check_address(place)
    connect = _by_ibis if is_address else _by_duckdb
    try:
        connection, run = connect(place)
        return connection.table(table) if query is None else run(query)
    except MixtsError:
        raise
    except Exception as error:  # each database has its own tree of errors
        said = without_password(" ".join(str(error).split()))
        raise ParameterError(
            f"{option} failed at {without_password(place)}: {said} ({type(error).__name__})"
        ) from None  # the error itself may show the password


def without_password(place: str) -> str:
    """Return an address without its password, for messages and pages."""

    def hidden(found: re.Match[str]) -> str:
        return f"{found[1]}:...@" if found[1] is not None else f"{found[2]}..."

    return _PASSWORD.sub(hidden, place)


def _check_address(place: str) -> None:
    """Refuse an address whose password has characters that end it: errors would repeat them."""
    parts = urlsplit(place)
    try:
        is_address = "@" not in parts.path + parts.fragment and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise ParameterError(
            f"{without_password(place)} is no address: the port must be a number, and / ? # of a "
            "password are written as %2F %3F %23"
        )


def _by_duckdb(place: str) -> tuple[Any, Callable[[str], Any]]:
    duckdb = _imported("duckdb", "duckdb")
    connection = duckdb.connect(place, read_only=True)

    def run(query: str) -> Any:
        statements = duckdb.extract_statements(query)
        _check_query([one.type == duckdb.StatementType.SELECT for one in statements])
        return connection.sql(query)

    return connection, run


def _by_ibis(place: str) -> tuple[Any, Callable[[str], Any]]:
    connection = _imported("ibis", "ibis").connect(place)

    def run(query: str) -> Any:
        import sqlglot  # Ibis needs it

        statements = filter(None, sqlglot.parse(query, read=connection.dialect))
        _check_query([isinstance(one, sqlglot.exp.Query) for one in statements])
        if connection.name != "postgres":
            return connection.sql(query)
        # Ibis learns the columns from a view of its own, which it cannot drop with sqlglot 30.
        with connection.con.cursor() as cursor, connection.con.transaction():
            cursor.execute(f"CREATE TEMPORARY VIEW mixts_query AS {query}")
        return connection.table("mixts_query")

    return connection, run


def _check_query(are_selects: Sequence[bool]) -> None:
    if list(are_selects) != [True]:
        raise ParameterError(
            "--query must be one SELECT, without other statements before or after it: none of "
            "them was run"
        )


def _imported(library: str, extra: str) -> Any:
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise MissingExtraError(
            f"logs of this database need {library}: pip install 'mixts[{extra}]'"
        ) from error


def _is_duckdb(place: str) -> bool:
    """Return whether a file begins as those of DuckDB do."""
    if not os.path.isfile(place):
        return False
    with open(place, "rb") as file:
        return file.read(12)[8:] == b"DUCK"
