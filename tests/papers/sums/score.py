"""Reads a sum."""

from wm.models.serving import replies


def read(text):
  return replies.number(text, 'sum').value
