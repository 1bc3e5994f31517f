"""Reads the numbers that a chart's specification holds."""

from typing import Any


def panels(spec: dict[str, Any]) -> list[dict[str, Any]]:
  """Returns each pair of axes of a chart."""
  return spec.get('concat', [spec])


def rows(spec: dict[str, Any], number: int = 0, layer: int = 0) -> list[dict]:
  """Returns the data of a layer of a panel."""
  panel = panels(spec)[number]
  data = panel['layer'][layer].get('data') or panel.get('data') or spec['data']
  return spec['datasets'][data['name']]


def encoding(spec: dict[str, Any], channel: str, number: int = 0) -> dict:
  """Returns a channel of the last layer of a panel that has it."""
  layers = panels(spec)[number]['layer']
  (*_, last) = (x['encoding'] for x in layers if channel in x['encoding'])
  return last[channel]


def title(spec: dict[str, Any], number: int = 0) -> list[str]:
  """Returns the lines above a panel."""
  return panels(spec)[number].get('title', {}).get('text', [])
