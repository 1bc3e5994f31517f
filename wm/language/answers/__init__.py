"""Replies of language models, read as values.

replies     plain text, its marks, yes or no, one of some names, lists
structures  counts, seats, paths, pairs, objects, numbers by step, labels
"""
