"""Ways to act on one belief, measured on the same problems.

Run it by ``python -m mixts_paper.studies.policies``.
"""
