"""Predictors of trained networks: sessions, caches and checks."""
