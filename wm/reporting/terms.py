"""What the words of a report mean: quantities, side columns, fields, pictures.

All of it is said by the plug-ins: a metric's `glossary` and its docstring, a
world's docstrings of `tags` and `render`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence

from wm import core
from wm.core import registry
from wm.reporting import details
from wm.reporting.collect import Entry


def quantity(metric: str, name: str) -> str:
  """What a quantity of a metric means; '' where the metric does not say.

  NAME_0.5 and NAME_of_it mean what NAME does, unless they say it themselves.
  """
  return _said(registry.find('metric', metric).glossary, name)


def _said(glossary: Mapping[str, str], name: str) -> str:
  return glossary.get(_term(glossary, name), '')


def _term(glossary: Mapping[str, str], name: str) -> str:
  """The longest beginning of a name that is in a glossary, or ''."""
  parts = name.split('_')
  names = ['_'.join(parts[:n]) for n in range(len(parts), 0, -1)]
  return next((one for one in names if one in glossary), '')


def column(name: str, metric: str, world: str) -> str:
  """A side column in words, by the metric or by the world; else its name."""
  own = registry.find('metric', metric).glossary
  if name in own:
    return own[name]
  try:
    tags = registry.find('world', registry.parse(world)[0]).tags.__doc__ or ''
  except core.InputError:
    return name  # A world in a file that is not there.
  known = re.findall(r"[`'](\w+)[`']: ([^;.(]+)", ' '.join(tags.split()))
  return dict(known).get(name, name).strip()


def field(metric: str, name: str) -> str:
  """'k: only the first k tokens of continuations', by the docstring."""
  text = details.attributes(registry.find('metric', metric)).get(name, '')
  text = re.split(r'[;.(]\s|[;.(]$| \(', text)[0].strip()
  return f'{name}: {text}' if text else name


def picture(world: str) -> str:
  """What the pictures of a world's states show; raises InputError."""
  found = registry.find('world', registry.parse(world)[0])
  return ' '.join(inspect.getdoc(found.render).split('\n\n')[0].split())


def glossary(entries: Sequence[Entry]) -> dict[str, str]:
  """'metric' and 'metric: quantity' -> text, of all that was measured."""
  found: dict[str, str] = {}
  measured: dict[str, dict[str, None]] = {}
  for entry in entries:
    measured.setdefault(entry['metric'], {})[entry['quantity']] = None
  for metric, names in measured.items():
    cls = registry.find('metric', metric)
    first = inspect.cleandoc(cls.__doc__ or '').split('\n\n')[0]
    found[metric] = ' '.join(first.split())
    for name in names:
      if term := _term(cls.glossary, name):
        found[f'{metric}: {term}'] = cls.glossary[term]
  return found
