"""Layers, recurrences and network specs that models are built from."""
