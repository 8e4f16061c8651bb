"""Parts of a prior's check: evidence, calibration, surprises and the use of components."""
