"""Compiled kernels, each with a plain reference."""
