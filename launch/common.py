"""Flags of all binaries, and how they start and stop.

One flagfile drives every stage of a study, so every binary accepts the flags
of all stages; `--help` shows those that it reads, and imports nothing heavy.
"""

import copy
import hashlib
import json
import pathlib
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from absl import app, flags, logging

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # Binaries run from a clone, installed or not.

FLAGS = flags.FLAGS

# Every binary.
flags.DEFINE_string('world', None, "World, e.g. 'maps()'; see launch/list.py.")
flags.DEFINE_string('model', None, "Model, e.g. 'transformer(layers=2)'.")
flags.DEFINE_multi_string('metric', [], 'Metric; repeat for more than one.')
flags.DEFINE_string('accept', None, "Acceptance rule, e.g. 'epsilon(0.01)'.")
flags.DEFINE_string('out', None, 'Output folder.')
flags.DEFINE_integer('seed', 0, 'Seed of all randomness.', 0, 2**32 - 1)
flags.DEFINE_string('name', None, 'Name of the model in tables and files.')

# sample.
flags.DEFINE_integer('num', 100_000, 'Training sequences.', lower_bound=1)
flags.DEFINE_integer('num_heldout', 1000, 'Held-out sequences.', lower_bound=1)
flags.DEFINE_bool('text', False, 'Also write the published text format.')

# train.
flags.DEFINE_enum(
  'objective',
  'next',
  ['next', 'state'],
  "What a step predicts: the next token, or the world's whole state.",
)
flags.DEFINE_enum(
  'loss',
  'token',
  ['token', 'sequence'],
  'Trained on: the mean over the tokens of a batch, or over its sequences of '
  'their means. What is reported, and is best, goes by tokens.',
)
flags.DEFINE_integer('steps', 1000, 'Training steps.', lower_bound=1)
flags.DEFINE_integer('batch', 64, 'Sequences in a global batch.', lower_bound=1)
flags.DEFINE_enum(
  'batching',
  'buckets',
  ['buckets', 'random'],
  'Batches of like lengths, or random and padded.',
)
flags.DEFINE_float('lr', 1e-3, 'Peak learning rate.', lower_bound=0)
flags.DEFINE_enum(
  'schedule',
  'cosine',
  ['cosine', 'linear', 'constant'],
  'Learning rate after warm-up.',
)
flags.DEFINE_float(
  'floor', 0.0, 'Share of --lr it falls to.', lower_bound=0, upper_bound=1
)
flags.DEFINE_integer(
  'horizon', 0, 'Step of the floor; 0 is the last.', lower_bound=0
)
flags.DEFINE_integer('warmup', 100, 'Warm-up steps.', lower_bound=0)
flags.DEFINE_float(
  'beta2', 0.999, "AdamW's decay of squares.", lower_bound=0, upper_bound=1
)
flags.DEFINE_float('weight_decay', 0.01, 'AdamW decay.', lower_bound=0)
flags.DEFINE_bool('decay_all', False, 'Decay biases, norms, embeddings too.')
flags.DEFINE_float('clip', 1.0, 'Gradient norm clip; 0 is off.', lower_bound=0)
flags.DEFINE_integer(
  'skips',
  0,
  'Steps in a row left out where loss or gradient is not finite, before the '
  'run stops.',
  lower_bound=0,
)
flags.DEFINE_integer(
  'eval_every', 200, 'Steps between evaluations.', lower_bound=1
)
flags.DEFINE_integer(
  'eval_num', 0, 'First held-out sequences evaluated; 0 is all.', lower_bound=0
)
flags.DEFINE_string(
  'data', None, 'Folder of train/ and heldout/ sequences; default: OUT/data.'
)
flags.DEFINE_integer(
  'save_every', 200, 'Steps between checkpoints.', lower_bound=1
)
flags.DEFINE_integer(
  'mesh_data', 0, 'Devices on the data axis; 0 is all.', lower_bound=0
)
flags.DEFINE_integer(
  'mesh_model', 1, 'Devices on the model axis.', lower_bound=1
)
flags.DEFINE_string('coordinator', None, 'host:port of process 0.')
flags.DEFINE_integer('num_processes', 1, 'Processes of the run.', lower_bound=1)
flags.DEFINE_integer('process_id', 0, 'This process.', lower_bound=0)

# score.
flags.DEFINE_string(
  'score_world',
  None,
  'World to score in, of the same vocabulary; default: --world, or what a '
  'sweep trained a run on.',
)
flags.DEFINE_string(
  'checkpoint',
  'best',
  "'best' or 'last' of the training run in --out, 'none' for "
  'untrained, or a training run folder.',
)

# import_gpt2.
flags.DEFINE_string('weights', None, 'PyTorch state dict to import.')
flags.DEFINE_string(
  'vocab',
  None,
  'File of its words by id, one a line; default: the published order.',
)

# reconstruct.
flags.DEFINE_string(
  'samples',
  None,
  'File of sequences in the text format; default: sampled from the model.',
)
flags.DEFINE_integer(
  'max_degree', 4, 'Most edges out of a node.', lower_bound=1
)
flags.DEFINE_float('max_miles', 0.5, 'Longest added edge.', lower_bound=0)
flags.DEFINE_enum(
  'variant',
  'program',
  ['program', 'paper'],
  'The published program, or the algorithm as printed.',
)
flags.DEFINE_string('order', 'file', "Order of sequences: 'file' or a seed.")
flags.DEFINE_integer(
  'shuffles', 0, 'Further seeded orders for the range.', lower_bound=0
)
flags.DEFINE_enum(
  'ties',
  'default',
  ['default', 'order', 'nearest'],
  "Which of equally good nodes a new edge leads to; default: the variant's.",
)
flags.DEFINE_bool('rollback', False, 'A failed sequence leaves no edges.')
flags.DEFINE_enum(
  'control',
  None,
  ['none', 'valid', 'uniform', 'matched'],
  'Instead of the sequences: the valid ones alone, with --error_rate, or '
  "with mistakes as frequent and as late as the sequences' own.",
)
flags.DEFINE_float(
  'error_rate',
  0.0,
  'Corrupt valid sequences instead, with this probability each.',
  lower_bound=0,
  upper_bound=1,
)
flags.DEFINE_integer(
  'num_samples', 6400, 'Sequences sampled from the model.', lower_bound=1
)

# report.
flags.DEFINE_multi_string(
  'runs', [], 'Folders whose results to report; default: --out.'
)

# study.
flags.DEFINE_multi_string(
  'row', [], "'NAME: MODEL' or, trained first, 'NAME: MODEL on WORLD'; repeat."
)

# sweep.
flags.DEFINE_multi_string(
  'grid',
  [],
  "'FLAG=VALUE|VALUE|...', or flagfile=...; a value may be 'LABEL: VALUE'; "
  'repeat.',
)
flags.DEFINE_multi_string(
  'per', [], 'Axis of the grid, each value of which has its best run; repeat.'
)
flags.DEFINE_integer('jobs', 1, 'Runs at a time.', lower_bound=1)
flags.DEFINE_multi_string(
  'device', [], 'CUDA_VISIBLE_DEVICES of the jobs, in turn; repeat.'
)
flags.DEFINE_integer(
  'keep', 0, 'Best runs that keep their checkpoints; 0 is all.', lower_bound=0
)
flags.DEFINE_string('winners_of', None, 'Start from the best of this sweep.')
flags.DEFINE_integer('top', 1, 'How many of the best.', lower_bound=1)
flags.DEFINE_bool('dry_run', False, 'List the runs and do nothing.')

# boundary, count.
flags.DEFINE_string('first', None, 'State, or a sequence of tokens.')
flags.DEFINE_string('second', None, 'State, or a sequence of tokens.')
flags.DEFINE_string('state', None, 'State; default: the initial one.')
flags.DEFINE_integer('depth', 5, 'Longest suffix.', lower_bound=1)
flags.DEFINE_bool('show', False, 'Print the suffixes too.')

# fetch_map.
flags.DEFINE_string('place', None, "Place to download, e.g. 'Manhattan, NYC'.")
flags.DEFINE_string('map_file', None, 'OSM XML or GraphML file instead.')

# ingest.
flags.DEFINE_multi_string(
  'pgn', [], 'PGN file, plain or packed (gz, zst, bz2, xz); repeat for more.'
)
flags.DEFINE_integer('games', 0, 'Most good games; 0 is all.', lower_bound=0)
flags.DEFINE_string('shard', '0/1', 'Part i of n, as 0/4, of the work.')


def need(*names: str) -> None:
  """Raises InputError for flags that were not given, or are empty."""
  from wm import core

  for name in names:
    if getattr(FLAGS, name) in (None, [], ''):
      raise core.InputError(f'--{name} is required')


def given(flags: flags.FlagValues, names: Sequence[str]) -> dict[str, Any]:
  """Those of some flags that were given, and their values."""
  return {name: flags[name].value for name in names if flags[name].present}


def flags_in(path: str, names: Sequence[str]) -> dict[str, Any]:
  """What a flagfile gives of some flags, whatever the command line does."""
  from wm import core

  read = copy.deepcopy(FLAGS)
  read.unparse_flags()
  for name in read:
    read[name].present = 0
  try:
    read(['', f'--flagfile={path}'])
  except flags.Error as error:
    raise core.InputError(f'{path}: {error}') from error
  return given(read, names)


def parsed(name: str, text: str, names: Sequence[str]) -> Any:
  """The value that a flag, one of some, has by a text; InputError."""
  from wm import core
  from wm.core import registry

  if name not in names:
    raise core.InputError(f'--grid: no flag of a run is called {name!r}')
  try:
    value = FLAGS[name].parser.parse(text)
  except ValueError as error:
    raise core.InputError(
      f"--grid: {name}={text!r}: {error}; values are divided by '|'"
    ) from error
  if name in ('model', 'world'):
    registry.make(name, value)
  return value


def axis(text: str, names: Sequence[str]) -> Any:
  """An axis of --grid, over flags that are some of these; InputError."""
  from wm.tasks import grid

  return grid.parse_axis(
    text,
    lambda name, value: parsed(name, value, names),
    lambda path: flags_in(path, names),
  )


def predictor(world: Any) -> tuple[Any, str, dict[str, Any], Any]:
  """What --model and --checkpoint name, used in `world`.

  Returns:
    predictor: untrained where --checkpoint=none or the model needs no
      training, else from a training run.
    name, about: of its model, and what else identifies it.
    origin: what it is made from, see wm.runtime.provenance.
  """
  from wm import core
  from wm.core import registry
  from wm.models import user
  from wm.runtime import compile_cache, provenance

  compile_cache.enable()
  reader = provenance.Reader()
  model = registry.make('model', FLAGS.model) if FLAGS.model else None
  trained = isinstance(model, core.Trainable | core.Fittable)
  if FLAGS.checkpoint == 'none' or (model and not trained):
    need('model')
    about = {'model_spec': registry.spec(model), 'checkpoint': 'none'}
    origin, before = reader.of(world, model), {*sys.modules}
    found = user.predictor(model, world, FLAGS.seed)
    return found, model.name, about, reader.with_loaded(origin, before)
  from wm.training import restore

  which, folder = FLAGS.checkpoint, FLAGS.out
  if which not in restore.WHICH:
    which, folder = 'best', which
  code = reader.of(world, restore.__name__)  # Hashed before it is read.
  found, info = restore.load(folder, which, world, FLAGS.model)
  about = {
    'model_spec': info['run']['model'],
    'checkpoint': which,
    'step': info['step'],
    'training': _mark(info['run']),
    'recipe': _mark({k: x for k, x in info['run'].items() if k != 'seed'}),
    'training_seed': info['run'].get('seed'),
  }
  model = registry.make('model', about['model_spec'])
  origin = reader.of(model, code.inputs, {'checkpoint': info['sha256']})
  return found, model.name, about, origin


def _mark(value: dict[str, Any]) -> str:
  text = json.dumps(value, sort_keys=True)
  return hashlib.sha256(text.encode()).hexdigest()[:16]


def process(
  binary: str, flags: Callable[[Any], dict[str, Any]]
) -> Callable[[Any, pathlib.Path], list[str]]:
  """(run, its folder) -> the process of a binary with these flags' values."""

  def command(run: Any, folder: pathlib.Path) -> list[str]:
    values = {**flags(run), 'out': folder}
    given = [
      f'--{name}={one}'
      for name, value in values.items()
      if value != FLAGS[name].default
      for one in (value if isinstance(value, list) else [value])
    ]
    return [sys.executable, str(ROOT / 'launch' / f'{binary}.py'), *given]

  return command


def run(main: Callable[[], None], *names: str) -> None:
  """Parses flags and runs `main`; exits as `stopping.Exit` says.

  names: flags of this binary, shown by --help besides the common ones.
  """
  from wm.runtime import stopping  # --help needs no more of the package.

  stopping.install(_goes_on)
  sys.stdout.reconfigure(line_buffering=True)  # A signal loses no line.
  logging.use_absl_handler()
  for name in ('out', 'seed', *names):
    # Of the binary: `flags.declare_key_flag` would make them this module's.
    FLAGS.register_key_flag_for_module(sys.argv[0], FLAGS[name])
  app.run(lambda argv: _guarded(main, argv), flags_parser=_parse)


def _goes_on() -> bool:
  return FLAGS.is_parsed() and bool(FLAGS.out)


def _parse(argv: Sequence[str]) -> list[str]:
  from wm.runtime import stopping

  signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `--help | head` is no error.
  try:
    rest = FLAGS(argv)
  except SystemExit:  # Only the help flags do this, with code 1.
    sys.exit(stopping.Exit.DONE)
  except (flags.Error, UnicodeDecodeError) as error:
    from wm.runtime import ending

    ending.fail(str(error), stopping.Exit.BAD_INPUT)
  signal.signal(signal.SIGPIPE, signal.SIG_IGN)
  if FLAGS['verbosity'].using_default_value:
    FLAGS.verbosity = logging.ERROR  # Below are libraries' own remarks.
  return rest


def _guarded(main: Callable[[], None], argv: Sequence[str]) -> None:
  from wm import core
  from wm.core import plugins
  from wm.runtime import allocator, ending, files, progress

  allocator.keep()
  with ending.told(FLAGS.out):
    if len(argv) > 1:
      raise core.InputError(f'unexpected argument {argv[1]!r}')
    if FLAGS.out is not None:
      files.check_folder('--out', FLAGS.out)
    name = pathlib.Path(sys.argv[0]).stem
    with progress.Progress(name), plugins.blamed():
      main()
