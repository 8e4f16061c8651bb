"""The commands of mixts-serve."""
