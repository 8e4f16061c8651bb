"""Addresses of databases are shown without passwords."""

from __future__ import annotations

import pytest
from mixts_serve.store.postgres import without_secrets

from mixts import errors


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:s3cret@h:5433/db",
        "postgresql://h:5433/db?user=u&password=s3cret",
        "postgresql://u:s3cret%23%3F@h:5433/db",
        "postgres://u:s3cret@h:5433/db?sslpassword=s3cret",
    ],
)
def test_no_password_is_shown(url: str) -> None:
    assert without_secrets(url) == "postgresql://u@h:5433/db"


def test_an_address_that_cannot_be_read_is_not_quoted() -> None:
    with pytest.raises(errors.StoreError, match="percent-encoded") as refused:
        without_secrets("postgresql://u:s3cret%zz@h/db")
    assert "s3cret" not in str(refused.value)
    assert refused.value.__cause__ is None
