"""Makes one page of every model that was measured here, from recorded results.

  python launch/docs/results.py results.html

Units of miniatures and of the cross are means and ranges over seeds. The page
sorts by any column and filters by text; it needs no network. MkDocs makes it as
a part of the site.
"""

from __future__ import annotations

import collections
import html
import json
import os
import pathlib
import statistics
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLAGS = ROOT / 'launch' / 'flags'
# Heading -> metric, quantity. Of several specs of a metric the plainest counts.
COLUMNS = {
  'next token': ('next_token', 'validity'),
  'completed': ('traversal', 'valid'),
  'compression': ('compression', 'precision'),
  'distinction, precision': ('distinction', 'precision'),
  'distinction, recall': ('distinction', 'recall'),
  'false states': ('audit', 'false'),
  'missing states': ('audit', 'missing'),
  'coherence': ('coherence', 'false'),
  'probe': ('probe', 'accuracy'),
  'exact states': ('exactness', 'exact'),
  'R-IB': ('inductive_bias', 'r_ib'),
  'D-IB': ('inductive_bias', 'd_ib'),
  'excess loss': ('excess_loss', 'excess_loss'),
}
STUDIES = {
  'miniatures': 'python launch/miniature.py --flagfile={}',
  'cross': 'bash launch/cross.sh',
}


class Row(NamedTuple):
  """A model of a study over its seeds.

  Attributes:
    study, name: of the study, and of the row in it.
    family, world: names of the model and of the world that it is scored in.
    parameters, tokens: of its training; 0 where it is not trained.
    values: heading -> the value of each seed.
    seeds: their numbers.
    picture: its map, a path in launch/flags; '' without one.
    command: makes the study again.
  """

  study: str
  name: str
  family: str
  world: str
  parameters: int
  tokens: int
  values: dict[str, list[float]]
  seeds: list[int]
  picture: str
  command: str


def rows() -> Iterator[Row]:
  """Every model, in the order of studies."""
  units = collections.defaultdict(list)
  for kind in STUDIES:
    for path in sorted((FLAGS / kind / 'results').glob('*/*.json')):
      unit = json.loads(path.read_text(encoding='utf-8'))
      units[kind, unit['miniature'], unit['row']].append((path, unit))
  for (kind, study, name), runs in units.items():
    runs.sort(key=lambda run: run[1]['seed'])
    first = runs[-1][1]
    values = collections.defaultdict(list)
    for _, unit in runs:
      for heading, value in _values(unit['scores']):
        values[heading].append(value)
    trained = first.get('training') or {}
    flagfile = f'launch/flags/{kind}/{study}.flags'
    pictures = [path.with_suffix('.png') for path, _ in runs]
    shown = [str(p.relative_to(FLAGS)) for p in pictures if p.exists()]
    yield Row(
      *(study, name, first['key']['model']['name']),
      first['key']['scored_in']['name'],
      *(trained.get('parameters') or 0, trained.get('tokens') or 0),
      *(dict(values), [unit['seed'] for _, unit in runs]),
      *(shown[0] if shown else '', STUDIES[kind].format(flagfile)),
    )


def _values(scores: dict[str, list[list[Any]]]) -> Iterator[tuple[str, float]]:
  """Heading and value of each column that a unit has."""
  for heading, (metric, quantity) in COLUMNS.items():
    specs = sorted((s for s in scores if s.split('(')[0] == metric), key=len)
    for spec in specs:
      value = next((x[1] for x in scores[spec] if x[0] == quantity), None)
      if value is not None:
        yield heading, value
        break


def page(root: str = '') -> str:
  """The page as HTML, with links to maps where `root` leads to launch/flags."""
  every = list(rows())
  seeds = sum(len(row.seeds) for row in every)
  heads = ['model', 'study', 'world', 'family', 'parameters', 'tokens', 'seeds']
  heads += COLUMNS
  cells = ''.join(f'<th>{head}</th>' for head in heads)
  body = '\n'.join(_line(row, root) for row in every)
  title = f'{len(every)} models, {seeds} runs'
  maps = ' A model with a link has a map.' * bool(root)
  return PAGE.format(title=title, heads=cells, body=body, maps=maps)


def _line(row: Row, root: str) -> str:
  """A row of the table."""
  name = html.escape(row.name)
  if row.picture and root:
    source = html.escape(f'{root}/{row.picture}')
    name = f'<a href="{source}" title="its map">{name}</a>'
  cells = [
    f'<td title="{html.escape(row.command)}">{name}</td>',
    *(f'<td>{html.escape(x)}</td>' for x in (row.study, row.world, row.family)),
    *(f'<td>{x:,}</td>' if x else '<td></td>' for x in row[4:6]),
    f'<td>{len(row.seeds)}</td>',
  ]
  for heading in COLUMNS:
    values = row.values.get(heading)
    if not values:
      cells.append('<td></td>')
      continue
    span = f'{min(values):.3g} to {max(values):.3g}'
    mean = f'{statistics.fmean(values):.3f}'.replace('0.', '.')
    cells.append(f'<td title="{span}, {len(values)} seeds">{mean}</td>')
  return f'<tr>{"".join(cells)}</tr>'


PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>wm: models measured</title>
<meta name="viewport" content="width=device-width">
<style>
body {{ font: 14px/1.4 system-ui, sans-serif; margin: 1rem; color: #222; }}
input {{ font: inherit; padding: .3rem .5rem; width: min(30rem, 95%); }}
.scroll {{ overflow: auto; max-height: 85vh; border: 1px solid #ddd; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th {{ position: sticky; top: 0; background: #f4f4f4; cursor: pointer; }}
th, td {{ padding: .2rem .6rem; text-align: left; white-space: nowrap; }}
td:nth-child(n+5) {{ text-align: right; }}
tr:nth-child(even) td {{ background: #fafafa; }}
th[aria-sort]::after {{ content: " \\2193"; }}
th[aria-sort=ascending]::after {{ content: " \\2191"; }}
</style>
<h1>Models measured</h1>
<p>{title}. Values are means over seeds; point at one for its range, at a model
for its command. Click a heading to sort.{maps}</p>
<p><input id="filter" placeholder="filter, e.g. maps transformer"></p>
<div class="scroll"><table><thead><tr>{heads}</tr></thead>
<tbody>
{body}
</tbody></table></div>
<script>
const body = document.querySelector('tbody'), rows = [...body.rows];
const filter = document.getElementById('filter');
filter.oninput = () => {{
  const words = filter.value.toLowerCase().split(/\\s+/);
  for (const row of rows) {{
    const text = row.textContent.toLowerCase() + row.cells[0].title;
    row.hidden = !words.every(word => text.includes(word));
  }}
}};
const heads = [...document.querySelectorAll('th')];
heads.forEach((head, place) => head.onclick = () => {{
  const down = head.ariaSort !== 'descending';
  heads.forEach(other => other.removeAttribute('aria-sort'));
  head.ariaSort = down ? 'descending' : 'ascending';
  const key = row => row.cells[place].textContent.replaceAll(',', '');
  const compare = (a, b) => {{
    const [x, y] = [key(a), key(b)];
    if (!x || !y) return !x - !y;  // Blanks stay below.
    const order = place < 4 ? x.localeCompare(y) : x - y;
    return down ? -order : order;
  }};
  body.append(...rows.sort(compare));
}});
</script>
</html>
"""


def on_files(files: Any, config: Any) -> Any:
  """Adds the page to those of the site; MkDocs calls it."""
  from mkdocs.structure.files import File

  files.append(File.generated(config, 'results.html', content=page()))
  return files


if __name__ == '__main__':
  if len(sys.argv) != 2:
    sys.exit('error: expected the path of the page, such as results.html')
  target = pathlib.Path(sys.argv[1])
  text = page(os.path.relpath(FLAGS, target.resolve().parent))
  target.write_text(text, encoding='utf-8')
  print(f'written: {sys.argv[1]}')
