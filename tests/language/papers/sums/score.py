"""Reads a sum."""

from wm.language.answers import structures


def read(text):
  return structures.number(text, 'sum').value
