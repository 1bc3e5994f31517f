"""Notebooks: scripts and .ipynb are equal, and every one runs to its end."""

import ast

import pytest

NAMES = (
  'tour',
  'your_own_model',
  'your_own_world',
  'games_and_states',
  'reading_a_report',
)
SECONDS = 600  # Guards against a cell that hangs.
MAY_IMPORT = {
  'IPython',
  'matplotlib',
  'networkx',
  'numpy',
  'pandas',
  'pathlib',
  'tempfile',
  'wm',
}

jupytext, nbformat = (
  pytest.importorskip(name, reason='the extra notebooks is not installed')
  for name in ('jupytext', 'nbformat')
)


def both(root, name: str) -> tuple:
  """The notebook of a script, and the one that is kept beside it."""
  folder = root / 'launch' / 'notebooks'
  return jupytext.read(folder / f'{name}.py'), jupytext.read(
    folder / f'{name}.ipynb'
  )


def test_every_notebook_is_tested(root):
  folder = root / 'launch' / 'notebooks'
  for suffix in ('py', 'ipynb'):
    found = {path.stem for path in folder.glob(f'*.{suffix}')}
    assert found == set(NAMES), suffix


@pytest.mark.parametrize('name', NAMES)
def test_script_and_notebook_are_equal(root, name):
  script, kept = both(root, name)
  for given in (script, kept):
    assert given.cells
  assert [(c.cell_type, c.source) for c in kept.cells] == [
    (c.cell_type, c.source) for c in script.cells
  ], f'run: jupytext --to ipynb launch/notebooks/{name}.py'
  assert not any(c.get('outputs') for c in kept.cells)


@pytest.mark.parametrize('name', NAMES)
def test_they_use_the_library_only(root, name):
  source = (root / 'launch' / 'notebooks' / f'{name}.py').read_text()
  first = next(c for c in both(root, name)[1].cells if c.cell_type == 'code')
  assert first.source.startswith('# Where wm is not installed')
  for node in ast.walk(ast.parse(source)):
    if isinstance(node, ast.Import):
      assert {a.name.split('.')[0] for a in node.names} <= MAY_IMPORT
    elif isinstance(node, ast.ImportFrom):
      assert node.module.split('.')[0] in MAY_IMPORT


def execute(root, folder, names: tuple[str, ...]) -> dict[str, list]:
  """Cells by notebook, run one notebook after the other by one kernel.

  Each begins in a folder of its own and without the names of those before.
  What a kernel imports takes longer than most cells.
  """
  client = pytest.importorskip('nbclient')
  pytest.importorskip('ipykernel')
  cells, found = [], {}
  for name in names:
    (folder / name).mkdir()
    where = str(folder / name)
    cells += [
      nbformat.v4.new_code_cell('%reset -f'),
      nbformat.v4.new_code_cell(f'__import__("os").chdir({where!r})'),
    ]
    found[name] = both(root, name)[1].cells
    cells += found[name]
  with pytest.MonkeyPatch.context() as patch:
    patch.setenv('PYTHONPATH', str(root))
    patch.setenv('MPLBACKEND', 'module://matplotlib_inline.backend_inline')
    client.NotebookClient(
      nbformat.v4.new_notebook(cells=cells),
      timeout=SECONDS,
      kernel_name='python3',
      allow_errors=True,
      resources={'metadata': {'path': str(folder)}},
    ).execute()
  return found


def check(cells: list) -> None:
  """Each cell ran without an error, and pictures and texts were shown."""
  outputs = [output for cell in cells for output in cell.get('outputs', [])]
  for output in outputs:
    assert output.output_type != 'error', '\n'.join(output.traceback)
  assert all(c.execution_count for c in cells if c.cell_type == 'code')
  shown = {kind for output in outputs for kind in output.get('data', {})}
  assert 'text/plain' in shown
  assert shown & {'image/png', 'image/svg+xml'}


@pytest.fixture(scope='module')
def executed(root, tmp_path_factory) -> dict[str, list]:
  return execute(root, tmp_path_factory.mktemp('notebooks'), NAMES)


@pytest.mark.parametrize('name', NAMES)
def test_it_runs(executed, name):
  check(executed[name])


@pytest.mark.slow
@pytest.mark.parametrize('name', NAMES)
def test_it_runs_in_a_kernel_of_its_own(root, name, tmp_path):
  check(execute(root, tmp_path, (name,))[name])
