"""Pages about answers: tables that `report.toml` of a paper declares.

Rows or a frame of answers come in; `Report.table` gives the tables, and `save`
writes a page of them. A paper's module `report` calls both; charts are declared
likewise, see `wm.language.papers.reports`. A file begins so:

    cluster = "game"
    interval = "{value:.3f}| [{low:.3f}, {high:.3f}]|, n={n}"
    few = "{value:.3f}| too few games"      # In its place, of fewer than five.
    subsets.formed = "failure == ''"

    [tables.success]
    title = "Success of {name}"
    by = ["model", "kind"]
    [tables.success.columns]
    model = "model"
    answers = "{n:,} about {kind}"
    "success, micro" = "interval success of formed"

Each row of a table has values with names. A column is such a name, or a text
with values in braces, in which | divides the pieces of a cell; it is a dash
where one of them is None. A value that is a mapping becomes a column for each
of its keys. Titles and notes may have values in braces too.

Rows of a table with `by` are parts of a frame: groups of equal values of these
columns. Their values are those and measures, whose words are the name of a
measure, columns, and the subset of the rows that it is taken of.

    [tables.by_game]
    title = "Success by game"
    by = ["game"]                  # Without `columns`, these are its columns.
    across = "model"               # A column for each model, all of them with
    cells = "interval success"     # this measure.
    total = "all"                  # A last row of all rows, called so.
    of = "formed"                  # Rows of this subset alone.

"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import pathlib
import re
import string
from collections.abc import (
  Callable,
  Collection,
  Hashable,
  Iterable,
  Iterator,
  Mapping,
  Sequence,
)
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import wm
from wm import core
from wm.core import inputs
from wm.evaluation import statistics
from wm.language.papers import declared, has, load, names
from wm.reporting import charts, papers, tables, write
from wm.reporting.charts import Picture
from wm.reporting.tables import Cell, Table
from wm.runtime import files, pages, provenance

Row = Mapping[str, Any]


class AnswersPage(NamedTuple):
  """Tables, pictures and numbers.

  Attributes:
    title: of the page.
    lead: below it, a sentence or two.
    tables: in order.
    pictures: in order, below the tables.
    words: quantity -> what it is.
    rows: name of a CSV file, without its ending -> rows of the same keys.
  """

  title: str
  lead: str
  tables: Sequence[Table]
  pictures: Sequence[Picture]
  words: Mapping[str, str]
  rows: Mapping[str, Sequence[Row]]


def unused_name(name: str, taken: Collection[str]) -> str:
  """The name, or 'NAME (2)' and so on where it is known already."""
  unused, number = name, 2
  while unused in taken:
    unused, number = f'{name} ({number})', number + 1
  return unused


def table(
  title: str, rows: Sequence[Row], note: str = '', *, folded: bool = False
) -> Table:
  """A table of rows: text stays, numbers are formatted, None is a dash."""
  cells = ({k: _cell(value) for k, value in row.items()} for row in rows)
  return tables.of_rows(title, cells, note, folded)


def _cell(value: Any) -> str:
  if value is None or value != value:  # NaN is not equal to itself.
    return '–'
  if isinstance(value, str):
    return value
  return str(value) if isinstance(value, int) else tables.number(float(value))


def save(page: AnswersPage, out: str | pathlib.Path) -> pathlib.Path:
  """Writes report.html, one page that needs no network, and CSV files.

  Args:
    page: the page's content.
    out: folder; made if need be.

  Returns:
    Path of the page.

  Raises:
    InputError: another process writes there.
  """
  place = pathlib.Path(out)
  made_by = f'wm {wm.__version__}', f'commit {provenance.commit() or "unknown"}'
  with files.stage_lock(place, write.STAGE):
    text = pages.render(
      *('wm.reporting', 'answers.html'),
      title=page.title,
      lead=f'{page.lead} {", ".join(made_by)}.',
      tables=page.tables,
      pictures=page.pictures,
      words=page.words,
      script=charts.script_tag(page.pictures, place),
    )
    for picture in page.pictures:
      (place / picture.name).write_bytes(picture.image)
    for title, rows in page.rows.items():
      # Whole numbers stay such beside cells without a value.
      frame = pd.DataFrame([*rows], dtype=object)
      files.write_text(place / f'{title}.csv', frame.to_csv(index=False))
    files.write_text(place / 'report.html', text)
  return place / 'report.html'


class ClusterMean(NamedTuple):
  """A mean and its 95 % interval by clusters; None where n is 0.

  Attributes:
    value, low, high: the mean, and the ends of the interval.
    n, clusters: how many rows and clusters it is of.
    effective: clusters of equal size that say as much (Kish 1965).
  """

  value: float | None
  low: float | None
  high: float | None
  n: int
  clusters: int
  effective: float = 0.0


# Of fewer clusters an interval says next to nothing.
FEWEST_EFFECTIVE = 5


def cluster_mean(
  values: np.ndarray, cluster: Iterable[Hashable], *, macro: bool = False
) -> ClusterMean:
  """Mean of values [N] from 0 to 1, each in a cluster [N].

  Rows of a cluster, such as answers about one game or repeats of a question,
  are alike: they say less of the mean than as many of different clusters.

  macro: each cluster weighs the same, not each row.
  """
  if not len(values):
    return ClusterMean(None, None, None, 0, 0)
  code, names = pd.factorize(pd.Series(cluster))
  weights = np.bincount(code).astype(float)
  totals = np.bincount(code, values)
  if macro:
    totals, weights = totals / weights, np.ones(len(names))
  low, high, _ = statistics.interval(totals, weights, (0.0, 1.0))
  value = float(totals.sum() / weights.sum())
  effective = float(weights.sum() ** 2 / (weights**2).sum())
  return ClusterMean(value, low, high, len(values), len(names), effective)


def ordered(values: pd.Series, labels: Row | None = None) -> list[Any]:
  """Different values: those with labels in their order, then others, sorted.

  By first appearance where no value has a label.
  """
  present = values.unique().tolist()
  if labels is None:
    return present
  first = [value for value in labels if value in present]
  return first + sorted(set(present) - set(first))


class _GroupRow(dict[str, Any]):
  """A row: values of its group, and measures of its rows on demand."""

  def __init__(self, report: Report, keys: Row, frame: pd.DataFrame) -> None:
    super().__init__(keys)
    self._report, self._frame = report, frame

  def __missing__(self, name: str) -> Any:
    return self._report.measure(name, self._frame)


def _mean(frame: pd.DataFrame, column: str) -> float | None:
  return float(frame[column].mean()) if len(frame) else None


def _share(frame: pd.DataFrame, part: str, whole: str) -> float | None:
  """A sum over another; None where that is 0."""
  total = frame[whole].sum()
  return float(frame[part].sum() / total) if total else None


_MEASURE = re.compile(r'(\w+)((?: (?!of )\w+)*)(?: of (\w+))?')


@dataclasses.dataclass(frozen=True)
class Report:
  """The tables of one paper.

  Attributes:
    paper: its name.
    labels: column -> value -> its label, in the order of rows.
    measures: name -> function of rows and names of columns, besides `n`,
      `mean`, `share` (of sums), `interval` and `macro` (means by clusters, the
      second with each cluster weighing the same).
  """

  paper: str
  labels: Mapping[str, Mapping[Any, str]] = dataclasses.field(
    default_factory=dict
  )
  measures: Mapping[str, Callable[..., Any]] = dataclasses.field(
    default_factory=dict
  )

  @functools.cached_property
  def declared(self) -> dict[str, Any]:
    """Everything in its report.toml."""
    return declared(self.paper, 'report.toml')

  @functools.cached_property
  def published(self) -> dict[str, Any]:
    """The paper's numbers: launch/flags/FOLDER/published.json."""
    place = papers.folder() / self.declared['folder'] / 'published.json'
    numbers: dict[str, Any] = files.read_json(place)
    return numbers

  def table(self, name: str, rows: Any, **values: Any) -> Table:
    """The table of a name in report.toml.

    Args:
      name: there.
      rows: mappings or named tuples; a frame where the table has `by`.
      **values: of the title and the note.
    """
    spec = self.declared['tables'][name]
    if 'by' in spec:
      lines = list(self._grouped(spec, rows))
    else:
      lines = [self._cells(spec['columns'], row) for row in rows]
    return table(
      spec['title'].format_map(values),
      lines,
      spec.get('note', '').format_map(values),
      folded=spec.get('folded', False),
    )

  def _grouped(
    self, spec: Row, frame: pd.DataFrame
  ) -> Iterator[dict[str, Any]]:
    """The cells of each group of rows, and of all rows if there is a total."""
    if 'of' in spec:
      frame = self.subset(frame, spec['of'])
    by = spec['by']
    columns = spec.get('columns', dict(zip(by, by, strict=True)))
    groups = list(self.groups(frame, *by))
    if 'total' in spec and groups:
      groups.append((dict.fromkeys(by, spec['total']), frame))
    across = spec.get('across', by[0])
    heads = ordered(frame[across], self.labels.get(across))
    for keys, part in groups:
      labels = {name: self.label(name, value) for name, value in keys.items()}
      cells = self._cells(columns, _GroupRow(self, labels, part))
      for head in heads if 'across' in spec else ():
        rows = part[part[across] == head]
        value = self.measure(spec['cells'], rows) if len(rows) else None
        cells[self.label(across, head)] = self.shown(value)
      yield cells

  def groups(
    self, frame: pd.DataFrame, *by: str
  ) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """(value of each column, rows with these) of all groups; see `ordered`."""
    parts = dict(tuple(frame.groupby(list(by), observed=True)))
    values = [ordered(frame[name], self.labels.get(name)) for name in by]
    for key in itertools.product(*values):
      if key in parts:
        yield dict(zip(by, key, strict=True)), parts[key]

  def label(self, column: str, value: Any) -> Any:
    """The label of a value of a column; the value where it has none."""
    return self.labels.get(column, {}).get(value, value)

  def _cells(self, columns: Mapping[str, str], row: Any) -> dict[str, Any]:
    """The cells of a row, by head; columns without a value are left out."""
    row = row if isinstance(row, Mapping) else row._asdict()
    cells: dict[str, Any] = {}
    for head, column in columns.items():
      if '{' in column:
        cells[head] = filled(column, row)
      elif isinstance(row, _GroupRow) or column in row:
        value = self.shown(row[column])
        cells |= value if isinstance(value, Mapping) else {head: value}
    return cells

  def shown(self, value: Any) -> Any:
    """A mean with its interval as a cell; other values as they are."""
    if not isinstance(value, ClusterMean):
      return value
    few = value.effective < FEWEST_EFFECTIVE and 'few' in self.declared
    form = self.declared['few' if few else 'interval']
    return filled(form, value._asdict())

  def measure(self, text: str, frame: pd.DataFrame) -> Any:
    """A measure of rows, as 'share repaired moves of formed'."""
    measures: dict[str, Callable[..., Any]] = {
      'n': len,
      'mean': _mean,
      'share': _share,
      'interval': self.mean,
      'macro': functools.partial(self.mean, macro=True),
      **self.measures,
    }
    match = _MEASURE.fullmatch(text)
    name, columns, subset = match.groups() if match else ('', '', None)
    wrong = f'report.toml of {self.paper}: no column or measure {text!r}'
    inputs.check_known(name, measures, wrong)
    if subset:
      frame = self.subset(frame, subset)
    return measures[name](frame, *columns.split())

  def subset(self, frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """The rows of a subset of report.toml."""
    return frame.query(self.declared['subsets'][name])

  def mean(
    self, frame: pd.DataFrame, column: str, *, macro: bool = False
  ) -> ClusterMean:
    """Mean of a column, cut to [0, 1], by the clusters of this paper.

    Rows without a value are left out.
    """
    frame = frame[frame[column].notna()]
    values = frame[column].clip(0, 1).to_numpy(float)
    return cluster_mean(values, frame[self.declared['cluster']], macro=macro)


def filled(text: str, row: Row) -> str:
  """A text with values of a row; a dash where one of them is None."""
  formatter = string.Formatter()
  names = [name for _, name, _, _ in formatter.parse(text) if name]
  if any(formatter.get_field(name, (), row)[0] is None for name in names):
    return '–'
  pieces = formatter.vformat(text, (), row).split('|')
  return Cell(*pieces) if pieces[1:] else pieces[0]


def rescore(paper: str, data: str | pathlib.Path) -> AnswersPage:
  """Scores a paper's recorded answers again.

  Raises:
    InputError: no such paper, or its files are missing or damaged.
  """
  if not pathlib.Path(data).is_dir():
    raise core.InputError(f'no folder of recorded answers at {data}')
  recorded = [name for name in names() if has(name, 'recorded')]
  inputs.check_known(paper, recorded, f'no recorded answers of {paper!r}')
  page: AnswersPage = load(paper, 'recorded').rescore(data)
  return page
