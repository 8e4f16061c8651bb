"""The experiments of the paper's Section 6, and those that its Sections 4 and 5 call for."""

ORDER = (
    "width", "components", "latent_prior", "decomposition", "identification", "images", "riverswim",
)  # fmt: skip
"""Modules of the experiments, in the order of the paper."""
