"""Replies of language models, read as values.

replies  plain text, its marks, JSON and tables in it; lexicon.toml has words
values   counts, paths, objects, numbers by step
grammar  yes or no, names and verdicts; the reader of a question
"""
