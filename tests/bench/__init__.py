"""Benchmarks: `python -m tests.bench [NAME]` prints a JSON object a line."""
