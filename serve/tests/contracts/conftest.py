"""Fixtures that several contracts share."""

from serve.tests.contracts.stores import address, opened, postgres, store

__all__ = ["address", "opened", "postgres", "store"]
