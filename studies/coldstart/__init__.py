"""Cold start: what priors learned from past tasks are worth for new ones."""

ORDER = ("known_truth", "images", "movielens")
