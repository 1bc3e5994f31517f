"""Units, rows and findings made up for tests of verdicts."""

from wm.lab import findings, units, verdicts
from wm.lab.units import Results

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


def unit(
  row: str,
  seed: int,
  *entries: dict,
  steps: int = 10,
  trained: bool = True,
  commit: str | None = 'abc',
  rules: dict | None = None,
  **more,
) -> units.Unit:
  training = {'training': {'seed': seed, 'steps': steps}} if trained else {}
  return units.Unit(
    *('maps', row, seed),
    {'seed': seed, **training},
    {'commit': commit, 'processor': 'P', 'cores': 2, 'jax': '1'},
    {'cpu_seconds': 60, 'wall_seconds': 90, 'peak_mb': 700, 'processes': 1},
    {},
    list(entries),
    rules=rules or {},
    **more,
  )


def rows(trained: bool = True, **values) -> dict[str, list[units.Unit]]:
  """Row -> units with these values of compression, a seed each."""
  return {
    row: [
      unit(row, seed, entry(value), trained=trained)
      for seed, value in enumerate(of)
    ]
    for row, of in values.items()
  }


def record(*claims: dict, **more) -> dict:
  """A finding as in a findings.json."""
  usual = {'metric': 'compression', 'quantity': 'precision'}
  return {
    **{'name': 'f', 'title': 'walks win', 'sentence': 'They do.'},
    **{'paper': 'A 2024', 'printed': 'table 1', 'miniature': 'maps'},
    'date': '2026-01-31',
    'claims': [{**usual, **claim} for claim in claims],
    **more,
  }


def finding(*claims: dict, **more) -> findings.Finding:
  return findings.parse(record(*claims, **more), 'here')


def judged(of: findings.Finding, by_row, refused=None) -> verdicts.Judged:
  """A finding that is the only one of its paper."""
  (result,) = verdicts.judge([of], {'maps': Results(by_row, refused or {})})
  return result


WALKS = {'rows': ['walks'], 'relation': 'above', 'than': ['paths']}
FAR, NEAR = (0.9, 0.91, 0.89), (0.5, 0.51, 0.49)
