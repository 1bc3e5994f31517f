"""Units, rows and findings made up for tests of verdicts."""

from wm.reporting import findings, units

SPEC = 'compression(trials=300)'


def entry(value, half=0.02, spec=SPEC, quantity='precision', **more) -> dict:
  known = value is not None
  return {
    **{'spec': spec, 'quantity': quantity, 'value': value},
    'low': max(value - half, 0) if known else None,
    'high': value + half if known else None,
    **{'n': 300, 'clusters': 100},
    **more,
  }


def unit(row: str, seed: int, *entries: dict, steps: int = 10) -> units.Unit:
  return units.Unit(
    *('maps', row, seed),
    {'seed': seed, 'training': {'seed': seed, 'steps': steps}},
    {'commit': 'abc', 'processor': 'P', 'cores': 2, 'jax': '1'},
    {'cpu_seconds': 60, 'wall_seconds': 90, 'peak_mb': 700, 'processes': 1},
    {},
    list(entries),
  )


def rows(**values) -> dict[str, list[units.Unit]]:
  """Row -> units with these values of compression, a seed each."""
  return {
    row: [unit(row, seed, entry(value)) for seed, value in enumerate(of)]
    for row, of in values.items()
  }


def finding(*claims: dict, **more) -> findings.Finding:
  usual = {'metric': 'compression', 'quantity': 'precision'}
  given = {
    **{'name': 'f', 'title': 'walks win', 'sentence': 'They do.'},
    **{'paper': 'A 2024', 'printed': 'table 1', 'miniature': 'maps'},
    'claims': [{**usual, **claim} for claim in claims],
    **more,
  }
  return findings._finding(given, 'here')


WALKS = {'rows': ['walks'], 'relation': 'above', 'than': ['paths']}
FAR, NEAR = (0.9, 0.91, 0.89), (0.5, 0.51, 0.49)
