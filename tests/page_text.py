"""Reads what a page shows, as lines of text."""

import html.parser
import pathlib
from typing import ClassVar


class _Lines(html.parser.HTMLParser):
  """Headings as '## A', cells as '| A | B |', items as '- A'."""

  # What a line begins with; pieces of a cell are divided by blanks.
  starts: ClassVar[dict[str, str]] = {
    **dict.fromkeys(('p', 'summary', 'dt', 'dd', 'tr'), ''),
    **dict.fromkeys(('h1', 'h2', 'h3', 'h4'), '## '),
    **{'li': '- ', 'figcaption': 'Picture: '},
  }

  def __init__(self) -> None:
    super().__init__()
    self.lines, self._hidden = [''], 0

  def handle_starttag(self, tag: str, attrs: list) -> None:
    self._hidden += tag in ('script', 'style')
    # A heading in a summary is no line beside it.
    if tag in self.starts:
      self.lines.append(self.starts[tag])
    elif tag in ('td', 'th'):
      self.lines[-1] += ' | ' if self.lines[-1] else '| '
    elif tag in ('small', 'details') and self.lines[-1][:1] == '|':
      self.lines[-1] += ' '

  def handle_endtag(self, tag: str) -> None:
    self._hidden -= tag in ('script', 'style')
    if tag == 'tr':
      self.lines[-1] += ' |'

  def handle_data(self, data: str) -> None:
    if not self._hidden:
      self.lines[-1] += ' '.join(data.split('\n'))


def read(path: str | pathlib.Path) -> str:
  """The text of a page, or of the page in the folder of a report."""
  path = pathlib.Path(path)
  parser = _Lines()
  page = path / 'report.html' if path.is_dir() else path
  parser.feed(page.read_text(encoding='utf-8'))
  return '\n'.join(filter(None, map(str.strip, parser.lines)))


def table(text: str, title: str) -> list[list[str]]:
  """Cells of the first table below a heading, its heads first."""
  part = text.partition(f'## {title}')[2].partition('\n## ')[0]
  rows = [x for x in part.splitlines() if x.startswith('| ')]
  return [line[2:-2].split(' | ') for line in rows]
