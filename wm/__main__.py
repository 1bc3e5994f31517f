"""One command with a subcommand for each program in launch/.

  wm score --world='maps()' --model='uniform()' --metric='compression()'
  python -m wm report --runs=runs/quickstart
  wm study --flagfile=vafa2024/tables

`wm SUBCOMMAND --help` shows the flags. A flagfile is a path, or one of the
papers' by its place in launch/flags.
"""

from __future__ import annotations

import ast
import pathlib
import runpy
import sys

from wm import options


def programs() -> dict[str, pathlib.Path]:
  """Subcommand -> its program."""
  folder = options.launch_folder()
  return {
    path.stem: path
    for path in sorted(folder.glob('*.py'))
    if path.stem != 'common'
  }


def main() -> None:
  """Runs a subcommand with the rest of the command line."""
  paths = programs()
  name = sys.argv[1] if len(sys.argv) > 1 else '--help'
  if name in ('--help', '-h', 'help'):
    print(__doc__)
    for each, path in paths.items():
      text = ast.get_docstring(ast.parse(path.read_text('utf-8'))) or ''
      print(f'  {each:12}{text.splitlines()[0]}')
    return
  if name not in paths:
    available = ', '.join(paths)
    line = f'error: no subcommand {name!r}; available: {available}'
    print(line, file=sys.stderr)
    sys.exit(2)
  sys.argv = [str(paths[name]), *sys.argv[2:]]
  sys.path.insert(0, str(paths[name].parent))  # Programs import `common`.
  runpy.run_path(sys.argv[0], run_name='__main__')


if __name__ == '__main__':
  main()
