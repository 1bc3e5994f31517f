"""Weights of other programs."""
