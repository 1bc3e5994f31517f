"""Executes the notebooks, and keeps them with their outputs.

  python -m tests.notebooks
  python -m tests.notebooks tour your_own_model

reads launch/notebooks/NAME.py, runs its cells in a kernel of their own, and
writes NAME.ipynb: cells, outputs, and the hash of the cells that they are of. A
test refuses a notebook whose script has changed since.
"""

import argparse
import hashlib
import json
import os
import pathlib
import tempfile

import jupytext
import nbclient

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / 'launch' / 'notebooks'
NAMES = sorted(path.stem for path in FOLDER.glob('*.py'))
SECONDS = 600  # Guards against a cell that hangs.


def script(name: str):
  """The notebook of a script, without outputs."""
  return jupytext.read(FOLDER / f'{name}.py')


def kept(name: str):
  """The notebook beside the script."""
  return jupytext.read(FOLDER / f'{name}.ipynb')


def digest(notebook) -> str:
  """Hash of the cells' kinds and sources."""
  cells = [(cell.cell_type, cell.source) for cell in notebook.cells]
  return hashlib.sha256(json.dumps(cells).encode()).hexdigest()


def execute(notebook, folder: pathlib.Path) -> None:
  """Runs all cells by a kernel that imports this tree, in a folder."""
  client = nbclient.NotebookClient(
    notebook,
    timeout=SECONDS,
    kernel_name='python3',
    allow_errors=True,
    resources={'metadata': {'path': str(folder)}},
  )
  client.execute(env={**os.environ, 'PYTHONPATH': str(ROOT)})


def check(cells: list) -> None:
  """Each cell ran without an error, and pictures and texts were shown."""
  outputs = [output for cell in cells for output in cell.get('outputs', [])]
  for output in outputs:
    assert output.output_type != 'error', '\n'.join(output.traceback)
  assert all(c.execution_count for c in cells if c.cell_type == 'code')
  shown = {kind for output in outputs for kind in output.get('data', {})}
  assert 'text/plain' in shown
  assert shown & {'image/png', 'image/svg+xml'}


def write(name: str) -> pathlib.Path:
  """Executes a notebook and writes it with its outputs."""
  notebook = script(name)
  with tempfile.TemporaryDirectory() as folder:
    execute(notebook, pathlib.Path(folder))
  check(notebook.cells)
  for number, cell in enumerate(notebook.cells):
    cell.metadata = {}  # Times of execution.
    cell.id = f'cell-{number}'
    if cell.cell_type == 'code':  # How far a call is, which depends on time.
      cell.outputs = [o for o in cell.outputs if o.get('name') != 'stderr']
  notebook.metadata['wm'] = {'source_sha256': digest(notebook)}
  path = FOLDER / f'{name}.ipynb'
  jupytext.write(notebook, path)
  return path


def main() -> None:
  """Executes the notebooks that are named, or all."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument('name', nargs='*', choices=[*NAMES, []])
  for name in parser.parse_args().name or NAMES:
    path = write(name)
    print(path, path.stat().st_size // 1000, 'kB', flush=True)


if __name__ == '__main__':
  main()
