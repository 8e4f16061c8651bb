"""Beyond the paper: other bounds, other policies, and how far the paper's results carry."""

ORDER = ("bounds", "policies", "optimum", "long_run", "riverswim")
"""Modules of the experiments, in the order of the report."""
