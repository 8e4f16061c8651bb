"""Beyond the paper: other policies on the same belief, and how far the paper's results carry."""

ORDER = ("riverswim",)
"""Modules of the experiments, in the order of the report."""
