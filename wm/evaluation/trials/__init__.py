"""Trials in flight: what they share, and how tokens are drawn for them."""
