"""Compiled loops over tasks: the evidence under every component, and what maximising it needs."""
