"""Tests of orbits' kernels."""
