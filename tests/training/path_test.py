"""How far the options of a training run travel.

python -m tests.training.path_test      prints the files, one a line
"""

import ast
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]


def takes(path: pathlib.Path, options: str) -> bool:
  """Whether a function in a file has a parameter of this type."""
  return any(
    node.annotation is not None and options in ast.unparse(node.annotation)
    for node in ast.walk(ast.parse(path.read_text(encoding='utf-8')))
    if isinstance(node, ast.arg)
  )


def files(options: str = 'Training') -> list[str]:
  """Files of wm that have such a function."""
  paths = sorted((ROOT / 'wm').rglob('*.py'))
  return [str(p.relative_to(ROOT)) for p in paths if takes(p, options)]


def test_options_pass_through_few_files():
  results = files()
  assert 'wm/training/loop.py' in results
  assert len(results) <= 9, results


if __name__ == '__main__':
  print(*files(), sep='\n')
