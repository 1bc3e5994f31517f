"""Reads a sum."""

from wm.language.answers import values


def read(text):
  return values.number(text, 'sum').value
