"""Stores of decisions: a SQLite file, or a PostgreSQL database that replicas share."""

from mixts_serve.store.store import DecisionStore

__all__ = ["DecisionStore"]
