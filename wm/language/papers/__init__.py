"""Papers about language models: a folder each, found by its name.

  task.py        questions and the tasks of Inspect: NAME, or NAME_... where a
                 paper has several; `known_answer` serves `wm/solver` and such,
                 where metadata of samples names the `task`
  prompt.md.j2   our own words of its prompts, a macro each; `published` fills
                 in the authors', which the user brings
  score.py       replies read, and their scores
  report.toml    its tables and figures; `reports` says how they are declared
  report.py      `page(logs)`, where a page has more than report.toml declares
  recorded.py    `rescore(folder)`: the page of recorded answers, where a paper
                 has published some

A new folder is found without an entry anywhere. This module imports no other of
wm: those of `wm.language` import it, and papers import those.
"""

from __future__ import annotations

import functools
import importlib
import importlib.resources
import importlib.util
import pkgutil
import tomllib
import types
from typing import Any


def names() -> list[str]:
  """Names of all papers."""
  modules = pkgutil.iter_modules(__path__)
  return sorted(module.name for module in modules if module.ispkg)


def paper_of(task: str) -> str:
  """The paper of a task, 'mango' of 'wm/mango_route'; '' where it has none."""
  name = task.rpartition('/')[2]
  papers = [
    paper for paper in names() if name == paper or name.startswith(f'{paper}_')
  ]
  return max(papers, key=len, default='')


def has(paper: str, part: str) -> bool:
  """Does a paper have a module of this name?"""
  return importlib.util.find_spec(f'{__name__}.{paper}.{part}') is not None


def load(paper: str, part: str) -> Any:
  """A module of a paper, such as 'task'; a 'report' is there without one."""
  if part == 'report' and not has(paper, part):
    page = importlib.import_module(f'{__name__}.reports').page
    return types.SimpleNamespace(page=functools.partial(page, paper))
  return importlib.import_module(f'{__name__}.{paper}.{part}')


def declared(paper: str, name: str) -> dict[str, Any]:
  """A TOML file of a paper, such as 'report.toml'."""
  file = importlib.resources.files(f'{__name__}.{paper}') / name
  return tomllib.loads(file.read_text(encoding='utf-8'))
