"""Compiled loops: plain arrays in, checked before anything changes, the first bad place out."""
