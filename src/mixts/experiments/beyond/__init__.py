"""Beyond the paper: other policies on the same belief, and how far the paper's results carry."""

ORDER = ("policies", "optimum", "long_run", "riverswim")
"""Modules of the experiments, in the order of the report."""
