"""Compiled loops. Each takes plain arrays, checks before it changes anything, and says where it stopped."""
