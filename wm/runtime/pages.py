"""Text and HTML pages from a package's templates."""

from __future__ import annotations

import base64
import functools
import re
from typing import Any

import jinja2
import markupsafe


def render(package: str, template: str, **values: Any) -> str:
  """Fills in a template; escapes values in HTML pages.

  Args:
    package: package whose folder `templates` holds the template.
    template: file name; escaping is on if the name ends in '.html'. Extra
      filters: `data_uri('png')` embeds an image in the page, `breakable`
      allows line breaks after '/', ',', '=' and '_'.
    **values: variables of the template; a missing one raises
      jinja2.UndefinedError.
  """
  return _templates(package).get_template(template).render(values)


@functools.cache
def macros(package: str, template: str) -> Any:
  """Macros of a template, as functions that return text.

  The template lies beside the package's modules:
  `macros('wm.language.papers.mango', 'prompt.md.j2').question(...)`.
  """
  return _templates(package, '').get_template(template).module


def sentences(package: str, template: str, name: str, **values: Any) -> str:
  """Calls a macro; returns its text on one line, with single spaces."""
  text = macros(package, template).__dict__[name](**values)
  return ' '.join(text.split())


@functools.cache
def _templates(package: str, folder: str = 'templates') -> jinja2.Environment:
  environment = jinja2.Environment(
    loader=jinja2.PackageLoader(package, folder),
    autoescape=jinja2.select_autoescape(['html'], default=False),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
  )
  environment.filters['data_uri'] = _data_uri
  environment.filters['breakable'] = _breakable
  environment.policies['json.dumps_kwargs'] = {
    'separators': (',', ':'),
    'allow_nan': False,
  }
  return environment


def _breakable(text: str) -> markupsafe.Markup:
  """Allows line breaks after '/', ',', '=' and '_'."""
  escaped = str(markupsafe.escape(text))
  return markupsafe.Markup(re.sub(r'([/,=_]+)(?=.)', r'\1<wbr>', escaped))


def _data_uri(content: bytes | str, kind: str) -> str:
  """An image as a data: URI, so that a page needs no other file."""
  data = content.encode() if isinstance(content, str) else content
  return f'data:image/{kind};base64,{base64.b64encode(data).decode("ascii")}'
