"""Priors from past tasks."""
