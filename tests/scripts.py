"""Scripts of the documentation, as modules."""

import functools
import importlib.util
import pathlib
import types

FOLDER = pathlib.Path(__file__).resolve().parent.parent / 'launch' / 'docs'


@functools.cache
def load(name: str) -> types.ModuleType:
  """A script of launch/docs; no package holds them."""
  spec = importlib.util.spec_from_file_location(name, FOLDER / f'{name}.py')
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module
