"""The paper: its experiments and figures, regret bounds, the analysis of regret, and studies.

``experiments`` runs what ``mixts reproduce`` reports, ``bounds`` has the theorems and further
bounds, ``analysis`` measures the steps of the proofs, and ``studies`` compares mixts with what else
people use.
"""

from mixts_paper._version import __version__ as __version__
