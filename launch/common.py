"""Flags of all binaries, and how they start and stop.

One flagfile drives every stage of a study, so every binary accepts the flags
of all stages; `--help` shows those that it reads, and imports nothing heavy.
"""

import copy
import io
import pathlib
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from absl import app, flags, logging

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # Binaries run from a clone, installed or not.

from wm import options  # noqa: E402
from wm.options.reconstruction import Reconstruction  # noqa: E402
from wm.options.sampling import Sampling  # noqa: E402
from wm.options.training import Training  # noqa: E402

FLAGS = flags.FLAGS
WHICH = ('best', 'last')  # Checkpoints of a run.
T = TypeVar('T')


def declare(cls: type) -> None:
  """A flag for each option of a dataclass, see `wm.options`."""
  for name, (field, about) in options.declared(cls).items():
    given: tuple[Any, ...] = name, field.default, about.help
    if name in FLAGS:  # The seed is one for all.
      continue
    if about.choices:
      name, default, said = given
      flags.DEFINE_enum(name, default, list(about.choices), said)
    elif field.type == 'bool':
      flags.DEFINE_bool(*given)
    elif field.type in ('int', 'float'):
      define: dict[str, Callable[..., Any]]
      define = {'int': flags.DEFINE_integer, 'float': flags.DEFINE_float}
      define[field.type](
        *given, lower_bound=about.least, upper_bound=about.most
      )
    else:
      flags.DEFINE_string(*given)


def values(cls: type[T]) -> T:
  """Options as the flags have them."""
  return cls(**{name: FLAGS[name].value for name in options.declared(cls)})


# Every binary.
flags.DEFINE_string('world', None, "World, e.g. 'maps()'; see launch/list.py.")
flags.DEFINE_string('model', None, "Model, e.g. 'transformer(layers=2)'.")
flags.DEFINE_multi_string('metric', [], 'Metric; repeat for more than one.')
flags.DEFINE_string('accept', None, "Acceptance rule, e.g. 'epsilon(0.01)'.")
flags.DEFINE_string('out', None, 'Output folder.')
flags.DEFINE_integer('seed', 0, 'Seed of all randomness.', 0, 2**32 - 1)
flags.DEFINE_string('name', None, 'Name of the model in tables and files.')

for cls in (Sampling, Training, Reconstruction):
  declare(cls)

# score.
flags.DEFINE_enum(
  'loop',
  None,
  ['auto', 'host', 'device'],
  'Where metrics that sample run their loop over tokens: the host, the device '
  'in one program, or the faster of both; default: as --metric says.',
)
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


def names(cls: type) -> list[str]:
  """Flags of a dataclass of options."""
  return list(options.declared(cls))


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


def source() -> dict[str, Any]:
  """What --model, --checkpoint and --out name, for `wm.load_predictor`."""
  from wm.library import loading

  which = FLAGS.checkpoint
  if which == 'none':
    need('model')
  if which == 'none' or (FLAGS.model and not loading.is_trained(FLAGS.model)):
    return {'source': FLAGS.model}
  folder, which = (FLAGS.out, which) if which in WHICH else (which, 'best')
  return {
    'source': pathlib.Path(folder),
    'checkpoint': which,
    'model': FLAGS.model,
  }


def run(main: Callable[[], None], *names: str) -> None:
  """Parses flags and runs `main`; exits as `stopping.Exit` says.

  names: flags of this binary, shown by --help besides the common ones.
  """
  from wm.runtime import stopping  # --help needs no more of the package.

  stopping.install(_goes_on)
  if isinstance(sys.stdout, io.TextIOWrapper):
    sys.stdout.reconfigure(line_buffering=True)  # A signal loses no line.
  logging.use_absl_handler()
  for name in ('out', 'seed', *names):
    # Of the binary: `flags.declare_key_flag` would make them this module's.
    FLAGS.register_key_flag_for_module(sys.argv[0], FLAGS[name])
  app.run(lambda argv: guarded(main, argv), flags_parser=parse)


def _goes_on() -> bool:
  return FLAGS.is_parsed() and bool(FLAGS.out)


def parse(argv: Sequence[str]) -> list[str]:
  """Parses flags; what is left of the command line. Exits where one is bad."""
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


def guarded(main: Callable[[], None], argv: Sequence[str]) -> None:
  """Runs `main`; exits with one line where input, disk or memory is bad."""
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
