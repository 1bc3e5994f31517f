"""Flags of all binaries, and how they start and stop.

One flagfile drives every stage of a study, so every binary accepts the flags
of all stages; `--help` shows those that it reads, and imports nothing heavy.
"""

import copy
import io
import os
import pathlib
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from absl import app, flags, logging

if TYPE_CHECKING:
  import pandas as pd

ROOT = pathlib.Path(__file__).resolve().parent.parent
if (ROOT / 'setup.py').exists():  # A clone, whether wm is installed or not.
  sys.path.insert(0, str(ROOT))

from wm import options  # noqa: E402
from wm.options.calls import (  # noqa: E402
  Asking,
  Extraction,
  Reconstruction,
  RouteSource,
  Sampling,
  Scoring,
  Stages,
  StudyJobs,
  Sweeping,
  Topology,
  Units,
  Workers,
)
from wm.options.training import Training  # noqa: E402

FLAGS = flags.FLAGS
WHICH = ('best', 'last')  # Checkpoints of a run.
# Old name of a flag, which flagfiles of users may have -> its present name.
RENAMED = {
  'fields': 'metric_overrides',
  'first': 'first_state',
  'second': 'second_state',
  'place': 'osm_place',
}
T = TypeVar('T')


def flags_of(cls: type) -> dict[str, str]:
  """Option -> its flag, of a dataclass of options, see `wm.options`."""
  declared = options.declared(cls).items()
  return {name: about.flag or name for name, (_, about) in declared}


def declare(cls: type) -> None:
  """A flag for each option of a dataclass; one of several is made once."""
  for name, (field, about) in options.declared(cls).items():
    if (flag := about.flag or name) in FLAGS:
      continue
    arguments: Any = flag, field.default, about.help
    limits: Any = {'lower_bound': about.least, 'upper_bound': about.most}
    if about.many:
      flags.DEFINE_multi_string(flag, [], about.help)
    elif about.choices:
      default: Any = field.default
      flags.DEFINE_enum(flag, default, [*about.choices], about.help)
    elif field.type == 'bool':
      flags.DEFINE_bool(*arguments)
    elif field.type == 'int':
      flags.DEFINE_integer(*arguments, **limits)
    elif field.type == 'float':
      flags.DEFINE_float(*arguments, **limits)
    else:
      flags.DEFINE_string(*arguments)


def keywords(cls: type) -> dict[str, Any]:
  """Option -> its value, as the flags have it."""
  return {name: FLAGS[flag].value for name, flag in flags_of(cls).items()}


def values(cls: type[T]) -> T:
  """Options as the flags have them."""
  return cls(**keywords(cls))


# Every binary.
flags.DEFINE_string('world', None, "World, e.g. 'maps()'; see launch/list.py.")
flags.DEFINE_string('model', None, "Model, e.g. 'transformer(layers=2)'.")
flags.DEFINE_string('out', None, 'Output folder, or s3://BUCKET/FOLDER.')
flags.DEFINE_bool(
  'strict',
  False,
  'Exit with 1 where the model is still in training, or where a metric could '
  'not be measured in any trial; without it, only where none could.',
)
flags.DEFINE_string('name', None, 'Name of the model in tables and files.')
flags.DEFINE_multi_string(
  'trust',
  [],
  'Python file that results, logs and checkpoints may name, or a folder of '
  'such; what a flag names is trusted. Repeat.',
)

for cls in (
  *(Sampling, Training, Reconstruction, RouteSource, Scoring, Extraction),
  *(Asking, Workers, StudyJobs, Sweeping, Topology, Units, Stages),
):
  declare(cls)

# study, miniature.
flags.DEFINE_multi_string(
  'row',
  [],
  "'NAME: MODEL' or, trained first, 'NAME: MODEL on WORLD', and perhaps "
  "'with steps=500, num=1000', or 'with match=\"sequences+steps\"' as another "
  'row has; repeat.',
)

# report.
flags.DEFINE_string(
  'miniatures', None, 'Folder of findings.json and results, to report on.'
)
flags.DEFINE_multi_string(
  'runs',
  [],
  'Folders whose results to report, or folders of such; default: --out.',
)
flags.DEFINE_bool('single_file', False, 'Make all pictures part of the page.')
flags.DEFINE_list('compare', [], 'Two runs to compare on the same trials: A,B.')

# explore.
flags.DEFINE_multi_string('run', [], 'Folder of a training run; repeat.')
flags.DEFINE_integer(
  'port',
  0,
  'Port of the page; 0 is any that is free.',
  lower_bound=0,
  upper_bound=65535,
)
flags.DEFINE_string('open', '', "View to open, e.g. 'prefix=25+47+N'.")
flags.DEFINE_bool('browser', True, 'Open the page in a browser.')

flags.DEFINE_string('paper', None, "Whose recorded answers, e.g. 'cogeval'.")

# list.
flags.DEFINE_bool('papers', False, 'List tables and figures of the papers.')

# plan.
flags.DEFINE_integer(
  'meshes',
  0,
  'Plan with 1, 2, 4, ... devices on the model axis, up to this number, and '
  'name the fastest that fits; 0 plans with --mesh_model alone.',
  lower_bound=0,
  upper_bound=1024,
)

# export.
flags.DEFINE_string('task', None, "Of Inspect, e.g. 'wm/mango_route'.")
flags.DEFINE_multi_string('option', [], 'NAME=VALUE, of the task; repeat.')

# sweep.
flags.DEFINE_multi_string(
  'grid',
  [],
  "'FLAG=VALUE|VALUE|...', or flagfile=...; a value may be 'LABEL: VALUE'; "
  'repeat.',
)

# count.
flags.DEFINE_string('first_state', None, 'State, or a sequence of tokens.')
flags.DEFINE_string('second_state', None, 'State, or a sequence of tokens.')
flags.DEFINE_string(
  'state', None, 'State, or a sequence of tokens; default: the initial state.'
)
flags.DEFINE_integer('depth', 5, 'Longest suffix.', lower_bound=1)
flags.DEFINE_bool('show', False, 'Print the suffixes too.')
flags.DEFINE_bool('interior', False, 'Report each suffix length separately.')

# ingest.
flags.DEFINE_string(
  'osm_place', None, "Place to download, e.g. 'Manhattan, NYC'."
)

# ingest.
flags.DEFINE_multi_string(
  'pgn', [], 'PGN file, plain or packed (gz, zst, bz2, xz); repeat for more.'
)
flags.DEFINE_multi_string(
  'text_file', [], 'Text or JSONL file of sequences; repeat for more.'
)
flags.DEFINE_multi_string(
  'heldout_file', [], 'Text file of held-out sequences; repeat for more.'
)
flags.DEFINE_integer('games', 0, 'Most usable games; 0 is all.', lower_bound=0)
flags.DEFINE_float(
  'lost',
  0.02,
  'Share of a file that may be left out for one reason, such as null moves.',
  lower_bound=0,
  upper_bound=1,
)
flags.DEFINE_string(
  'tokens', '', 'JSON or CSV file: what stands in text files for each token.'
)


def require(*names: str, other: str = '') -> None:
  """Raises InputError for flags that were not given, or are empty.

  other: flag that the caller would take instead.
  """
  from wm import core

  for name in names:
    if getattr(FLAGS, name) in (None, [], ''):
      instead = f', or --{other}' * bool(other)
      raise core.InputError(f'--{name} is required{instead}')


def refuse_together(other: str, *names: str) -> None:
  """Raises InputError for flags that are not read where `other` is given."""
  from wm import core

  for name in names:
    if (value := FLAGS[name].value) != FLAGS[name].default:
      both = f'--{name}={value} and --{other} were given'
      raise core.InputError(f'{both}: expected one of the two')


def names(cls: type) -> list[str]:
  """Flags of a dataclass of options."""
  return [*flags_of(cls).values()]


def given_flags(
  flags: flags.FlagValues, names: Sequence[str]
) -> dict[str, Any]:
  """Those of some flags that were given, and their values."""
  return {name: flags[name].value for name in names if flags[name].present}


def flags_in(path: str, names: Sequence[str]) -> dict[str, Any]:
  """What a flagfile gives of some flags, whatever the command line does."""
  from wm.core import inputs

  read = copy.deepcopy(FLAGS)
  read.unparse_flags()
  for name in read:
    read[name].present = 0
  with inputs.reading_file(path, 'a flagfile'):
    parse_words(read, ['', f'--flagfile={path}'])
  return given_flags(read, names)


def parsed(name: str, text: str, names: Sequence[str]) -> Any:
  """The value that a flag, one of some, has by a text; InputError."""
  from wm import core
  from wm.core import registry

  if name not in names:
    raise core.InputError(
      f'--grid: no flag of a run is called {name!r}; '
      + registry.suggest(name, sorted(names))
    )
  try:
    value: Any = FLAGS[name].parser.parse(text)
  except ValueError as error:
    raise core.InputError(
      f"--grid: {name}={text!r}: {error}; values are divided by '|'"
    ) from error
  if name in ('model', 'world'):
    registry.resolve(name, value)
  return value


def axes(texts: Sequence[str], names: Sequence[str]) -> dict[str, Any]:
  """Name -> label -> value of --grid, over flags that are some of these."""
  from wm.studies import grid

  return grid.parse(
    texts,
    lambda name, value: parsed(name, value, names),
    lambda path: flags_in(path, names),
  )


def row_options() -> dict[str, Any]:
  """The keywords that calls of studies share."""
  return {
    'accept': FLAGS.accept,
    'metric_overrides': FLAGS.metric_overrides,
    'sampling': values(Sampling),
    'training': values(Training),
    'reconstruction': values(Reconstruction),
    'num_samples': FLAGS.num_samples,
    **keywords(Stages),
    'log': print,
  }


def model_source() -> dict[str, Any]:
  """What --model, --checkpoint and --out name, for `wm.load_predictor`."""
  from wm.library import loading

  which = FLAGS.checkpoint
  if which == 'none':
    require('model')
  untrained = FLAGS.model and not loading.is_trained(FLAGS.model)
  if untrained and which not in (*WHICH, 'none'):
    refuse_together('model', 'checkpoint')
  if which == 'none' or untrained:
    require('world' if FLAGS.score_world is None else 'score_world')
    return {'source': FLAGS.model}
  if which in WHICH:
    require('out')
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
  from wm.runtime import compute, stopping  # --help needs no more of it.

  compute.fix_blas()
  _open_closed()
  stopping.install(_goes_on)
  if isinstance(sys.stdout, io.TextIOWrapper):
    sys.stdout.reconfigure(line_buffering=True)  # A signal loses no line.
  logging.use_absl_handler()
  for name in ('out', 'seed', 'trust', *names):
    # Of the binary: `flags.declare_key_flag` would make them this module's.
    FLAGS.register_key_flag_for_module(sys.argv[0], FLAGS[name])

  def checked_main() -> None:
    # A flagfile may have flags of any stage; one that promises to do nothing
    # must not be passed over.
    if FLAGS.dry_run and 'dry_run' not in names:
      from wm import core

      binary = pathlib.Path(sys.argv[0]).name
      raise core.InputError(
        f'--dry_run was given to {binary}, which lists nothing; available for '
        'ask.py, miniature.py, study.py and sweep.py'
      )
    main()

  app.run(lambda argv: guarded(checked_main, argv), flags_parser=parse)


def check_measured(entries: 'pd.DataFrame') -> None:
  """Exits with 1 where nothing was measured; see --strict."""
  from wm.evaluation import scoring
  from wm.runtime import exit_codes

  if reason := scoring.unmeasured(entries.to_dict('records'), FLAGS.strict):
    raise exit_codes.Failed(reason)


def _open_closed() -> None:
  """Has what is written to a closed stdout or stderr go nowhere.

  Else the next file that is opened would get it.
  """
  for number, name in enumerate(('stdin', 'stdout', 'stderr')):
    try:
      os.fstat(number)
    except OSError:
      # The lowest number that is free: this one, as they go upwards.
      mode = 'w' if number else 'r'
      setattr(sys, name, open(os.devnull, mode, encoding='utf-8'))  # noqa: SIM115


def _goes_on() -> bool:
  return FLAGS.is_parsed() and bool(FLAGS.out)


def _check_words(words: Sequence[str]) -> None:
  """Raises flags.Error where text is no UTF-8."""
  for word in words:
    if not word.isascii() and any('\ud800' <= c <= '\udfff' for c in word):
      raise flags.Error(f'{word!a} is not UTF-8')


def flagfile(name: str) -> pathlib.Path:
  """The path of a flagfile: as it is, from the root, or in launch/flags."""
  path = pathlib.Path(os.path.expanduser(name))
  folder = ROOT / 'launch' / 'flags'
  for each in (path, ROOT / path, folder / path, folder / f'{path}.flags'):
    if each.is_file():
      return each
  if name and path.exists():
    raise flags.Error(f'{path} is no regular file; expected a flagfile')
  raise flags.Error(f'--flagfile: No such file or directory: {name!r}')


def expanded(words: Sequence[str], read: tuple[str, ...] = ()) -> list[str]:
  """Words with those of flagfiles in their places, as absl has them.

  read: flagfiles that these words are from; one that reads itself is left out.
  """
  result: list[str] = []
  rest = list(words)
  while rest:
    word = rest.pop(0)
    if word == '--':
      return [*result, word, *rest]
    name, equals, path = word.lstrip('-').partition('=')
    if name != 'flagfile' or not word.startswith('-'):
      result.append(word)
      continue
    if not equals:
      path = rest.pop(0) if rest else ''
    source = flagfile(path)
    if str(source) not in read:
      try:
        text = source.read_text(encoding='utf-8')
      except UnicodeDecodeError as error:
        raise flags.Error(
          f'{path} is not UTF-8; expected a flagfile'
        ) from error
      except OSError as error:
        line = f'--flagfile={path}: {error.strerror or error}'
        raise flags.Error(line) from error
      lines = map(str.strip, text.splitlines())
      inner = [x for x in lines if x and not x.startswith(('#', '//'))]
      result += expanded(inner, (*read, str(source)))
  return result


def parse_words(known: flags.FlagValues, words: Sequence[str]) -> list[str]:
  """Parses flags; flags.Error says what a flag of an old name is called now.

  Returns the words that are no flags.
  """
  try:
    rest: list[str] = known(expanded(words))
  except flags.UnrecognizedFlagError as error:
    if error.flagname not in RENAMED:
      raise
    new = RENAMED[error.flagname]
    raise flags.Error(f'--{error.flagname} is now called --{new}') from error
  return rest


def parse(argv: Sequence[str]) -> list[str]:
  """Parses flags; what is left of the command line. Exits where one is bad."""
  from wm.runtime import stopping

  signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `--help | head` is no error.
  try:
    _check_words(argv)
    rest = parse_words(FLAGS, argv)
  except SystemExit:  # Only the help flags do this, with code 1.
    sys.exit(stopping.Exit.DONE)
  except (flags.Error, UnicodeDecodeError) as error:
    from wm.runtime import exit_codes

    exit_codes.fail(str(error), stopping.Exit.BAD_INPUT)
  signal.signal(signal.SIGPIPE, signal.SIG_IGN)
  if FLAGS['verbosity'].using_default_value:
    # Below are libraries' own remarks. Set so, it is no default any more,
    # which absl would replace; absl's types let flags have no value.
    FLAGS.verbosity = logging.ERROR  # type: ignore[assignment]
  return rest


def guarded(main: Callable[[], None], argv: Sequence[str]) -> None:
  """Runs `main`; exits with one line where input, disk or memory is bad."""
  from wm import core
  from wm.core import plugins
  from wm.runtime import compute, exit_codes, files, progress

  compute.keep_freed_memory()
  with exit_codes.exit_on_error(FLAGS.out):
    if len(argv) > 1:
      raise core.InputError(
        f'unexpected argument {argv[1]!r}; expected --FLAG=VALUE, see --help'
      )
    plugins.trust(*FLAGS.trust)
    if FLAGS.out is not None:
      files.check_folder('--out', FLAGS.out)
    name = pathlib.Path(sys.argv[0]).stem
    noticing = compute.noticing_loss()
    with progress.Progress(name), noticing, plugins.user_code():
      main()
