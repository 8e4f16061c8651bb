"""Ways to act on one belief, measured on the same problems: ``python -m studies.policies``."""
