"""Shared base classes and helpers of worlds."""
