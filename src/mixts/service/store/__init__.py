"""Where decisions are kept."""

from mixts.service.store.store import DecisionStore

__all__ = ["DecisionStore"]
