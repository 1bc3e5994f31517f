"""Pairs of prefixes, and what a world or a model accepts after them."""
