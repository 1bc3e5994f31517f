"""The report as one HTML page that needs no network."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Sequence

from wm.reporting.tables import Table

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto;
  max-width: 88rem; padding: 0 1.5rem; }
h1 { font-size: 1.7rem; margin-bottom: .2rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; }
p.lead { color: #777; margin-top: 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .7rem;
  text-align: left; white-space: nowrap; vertical-align: top; }
th { background: var(--soft); font-weight: 600; white-space: normal;
  vertical-align: bottom; min-width: 6rem; font-size: .9rem; }
th.long { min-width: 13rem; }
td small { display: block; color: #777; }
.note { color: #777; font-size: .9rem; max-width: 60rem; }
figure { margin: 1rem 1rem 1rem 0; display: inline-block; max-width: 34rem;
  vertical-align: top; }
figure.wide { max-width: 100%; }
figure img { max-width: 100%; background: white; border-radius: 6px; }
figcaption { color: #777; font-size: .9rem; }
summary h2 { display: inline-block; }
summary { cursor: pointer; }
code { background: var(--soft); padding: .1rem .3rem; border-radius: 4px; }
h3 { font-size: 1.05rem; margin: 1.4rem 0 .3rem; }
h3 small { color: #777; font-weight: normal; margin-left: .6rem; }
details > summary { margin: .2rem 0; }
.trial { border-left: 3px solid var(--line); padding: 0 0 .2rem 1rem;
  margin: 1rem 0 1.4rem; }
.trial h4 { margin: 0 0 .3rem; font-size: 1rem; }
.trial dl { margin: 0; display: grid; gap: .2rem 1rem;
  grid-template-columns: minmax(6rem, 13rem) 1fr; }
.trial dt { color: #777; font-size: .85rem; }
.trial dd { margin: 0; overflow-wrap: anywhere; }
.trial mark { background: #d1495b; color: white; padding: 0 .2rem;
  border-radius: 3px; }
.trial .after { opacity: .45; }
figure.scene { margin: .6rem .8rem .2rem 0; max-width: 24rem; }
figure.scene img { background: none; max-height: 24rem; }
"""


def _cell(text: str) -> str:
  value, bracket, rest = text.partition(' [')
  if not bracket:
    return html.escape(text)
  parts = [
    f'[{part}' if not n else part for n, part in enumerate(rest.split('], '))
  ]
  if len(parts) > 1:
    parts[0] += ']'
  small = ''.join(f'<small>{html.escape(part)}</small>' for part in parts)
  return html.escape(value) + small


_LONG = 40  # Characters of a head that has more room.


def _head(text: str) -> str:
  """A head may break after a sign, not only at a blank."""
  broken = re.sub(r'([/,=_]+)(?=.)', r'\1<wbr>', html.escape(text))
  kind = ' class="long"' if len(text) > _LONG else ''
  return f'<th{kind}>{broken}</th>'


def table(given: Table) -> str:
  """A table section."""
  heads = ''.join(map(_head, given.heads))
  rows = ''.join(
    '<tr>' + ''.join(f'<td>{_cell(cell)}</td>' for cell in row) + '</tr>\n'
    for row in given.rows
  )
  note = f'<p class="note">{html.escape(given.note)}</p>' if given.note else ''
  body = (
    f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>\n'
    f'{rows}</tbody></table></div>{note}\n'
  )
  title = f'<h2>{html.escape(given.title)}</h2>'
  if given.folded:
    return f'<details><summary>{title}</summary>{body}</details>\n'
  return title + body


_WIDE = 1000  # Pixels of a picture with several panels.


def _width(png: bytes) -> int:
  """Its header begins with 16 bytes of signature, length and type."""
  return int.from_bytes(png[16:20], 'big')


def figure(png: bytes, caption: str, link: str | None = None) -> str:
  """A picture held in the page itself, leading to `link` if given."""
  data = base64.b64encode(png).decode('ascii')
  image = (
    f'<img alt="{html.escape(caption)}" src="data:image/png;base64,{data}">'
  )
  text = html.escape(caption)
  if link:
    address = html.escape(link, quote=True)
    image = f'<a href="{address}">{image}</a>'
    text += f' (<a href="{address}">interactive map</a>)'
  kind = ' class="wide"' if _width(png) > _WIDE else ''
  return f'<figure{kind}>{image}<figcaption>{text}</figcaption></figure>\n'


def definitions(terms: dict[str, str]) -> str:
  """What each metric measures."""
  items = ''.join(
    f'<dt><code>{html.escape(term)}</code></dt><dd>{html.escape(text)}</dd>'
    for term, text in terms.items()
  )
  return f'<h2>What is measured</h2><dl>{items}</dl>\n'


def page(title: str, lead: str, parts: Sequence[str]) -> str:
  """The whole document."""
  return (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    f'<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>'
    f'<h1>{html.escape(title)}</h1><p class="lead">{html.escape(lead)}</p>\n'
    + ''.join(parts)
    + '</body></html>\n'
  )
