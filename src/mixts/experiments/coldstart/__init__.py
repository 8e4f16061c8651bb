"""Real people: priors learned from some of them, and what these are worth for others."""
