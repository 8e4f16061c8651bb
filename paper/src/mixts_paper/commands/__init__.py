"""The commands of mixts-paper."""
