"""Setup of a training run: its identity, its processes and its data."""

from __future__ import annotations

import dataclasses
import hashlib
import pathlib
import re
from typing import Any

import jax

from wm import core
from wm.core import registry, resources
from wm.data import sampling
from wm.data import store as stores
from wm.options.training import Training
from wm.runtime import compute, remote

STAGE = 'train'  # Name of OUT/train.run.json.
_JOINED = 'joined'  # Stands for a coordinator that the cluster has named.


def run_identity(
  training: Training,
  world: core.World,
  model: core.Model,
  data: tuple[stores.Store, stores.Store],
) -> dict[str, Any]:
  """Fields that are equal for two runs exactly if their results are equal."""
  shards = [s for store in data for s in store.manifest['shards']]
  # In order, because batches draw sequences by number.
  hashes = ''.join(shard['tokens_sha256'] for shard in shards)
  return {
    'world': registry.spec(world),
    'model': registry.spec(model),
    **training.run(),
    'world_version': world.version,
    'model_version': model.version,
    'max_len': world.max_len,
    'vocab_sha256': core.world.vocab_sha256(world),
    'data_sha256': hashlib.sha256(hashes.encode()).hexdigest(),
  }


def check_batch(
  training: Training, world: core.World, data: stores.Store
) -> None:
  """Raises InputError for a batch that is too large for memory or the data.

  data: training sequences. A batch may hold AT_ONCE sequences even if the data
    have fewer; some then occur twice.
  """
  num, batch = len(data), training.batch
  if batch > max(num, resources.AT_ONCE):
    raise core.InputError(
      f'batch={batch}: {data.folder} holds {num:,} sequences; expected at most '
      f'{max(num, resources.AT_ONCE):,} in a batch'
    )
  # Tokens, and a logit for each next token.
  tokens = data.manifest['tokens'] / num
  each = 4 * tokens * (1 + len(world.vocab)) / training.num_processes
  what = f'batch={batch} sequences of {tokens:.0f} tokens'
  resources.require_memory(batch * each, f'{what}, {len(world.vocab):,} in all')


def fitted_model_path(out: str | pathlib.Path) -> pathlib.Path:
  """File of a model that is fitted by counting, not trained by steps."""
  return pathlib.Path(out) / 'checkpoints' / 'fitted.npz'


def open_data(
  out: pathlib.Path,
  world: core.World,
  data: str | pathlib.Path | None = None,
  process: int = 0,
  processes: int = 1,
) -> tuple[stores.Store, stores.Store]:
  """The (train, heldout) stores in `data`, by default OUT/data, verified.

  Each of several processes verifies the hashes of its share.

  The folder `data` may hold sequences of another world with the same
  vocabulary, e.g. games of another policy.

  Raises:
    InputError: the data are missing, damaged, of another world, or too long
      for this one; or there are no held-out sequences.
  """
  splits = []
  for split in ('train', 'heldout'):
    store = stores.open(pathlib.Path(data or out / 'data') / split)
    # Hashes: a damaged shard must not train a model.
    store.verify(process, processes)
    sampling.check_vocab(store, world)
    # Data in OUT must be sampled from exactly this world. Data of an explicit
    # folder may be of another world with the same vocabulary.
    recorded, expected = store.manifest['world'], registry.spec(world)
    if recorded != expected and not data:
      raise core.InputError(
        f'{store.folder} holds sequences of {recorded}, not of {expected}'
      )
    if not len(store):
      raise core.InputError(f'{store.folder} holds no sequences')
    if store.lengths.max() > world.max_len:
      raise core.InputError(
        f'{store.folder} holds sequences of {store.lengths.max()} tokens; '
        f'those of {expected} have {world.max_len} at most'
      )
    splits.append(store)
  return splits[0], splits[1]


def resolve_cluster(training: Training) -> Training:
  """The options, with this process's number from the cluster for 'auto'.

  Raises:
    InputError: this process was not started by a cluster that JAX knows.
  """
  if training.distributed != 'auto':
    return training
  if training.num_processes > 1 or training.coordinator is not None:
    raise core.InputError(
      '--distributed=auto: expected no --coordinator and no --num_processes, '
      'which the cluster says'
    )
  compute.fix_threads(training.threads)  # Before JAX starts.
  try:
    if not jax.distributed.is_initialized():
      jax.distributed.initialize()
  # JAX raises these if a value is unknown, or if it is already initialized.
  except (ValueError, RuntimeError) as error:
    raise core.InputError(
      '--distributed=auto: expected a process that SLURM, Open MPI, Kubernetes '
      f'or a TPU pod has started; {error}'
    ) from error
  return dataclasses.replace(
    training,
    distributed='',
    coordinator=_JOINED,
    num_processes=jax.process_count(),
    process_id=jax.process_index(),
  )


def open_data_together(
  out: pathlib.Path, world: core.World, training: Training
) -> tuple[stores.Store, stores.Store]:
  """The verified data; if one of several processes fails, all fail."""
  share = training.process_id, training.num_processes
  if training.num_processes == 1:
    return open_data(out, world, training.data)
  compute.fix_threads(training.threads)
  start_jax(training)
  failure = data = None
  try:
    data = open_data(out, world, training.data, *share)
  except core.InputError as error:
    failure = error
  messages = compute.exchanged(str(failure or '').encode())
  if failure is not None:
    raise failure
  for process, message in enumerate(messages):
    if message:
      raise core.InputError(
        f'process {process} could not read the data: {message.decode()}'
      )
  assert data is not None  # Nothing has failed.
  return data


def has_own_mirrors(out: str | pathlib.Path, training: Training) -> bool:
  """Does each of several processes have its own mirror of a URL?"""
  return training.num_processes > 1 and remote.MIRRORS in str(out)


def share_mirrors(out: pathlib.Path, training: Training) -> None:
  """Copies the first process's mirror to all processes."""
  compute.fix_threads(training.threads)  # Before JAX starts.
  start_jax(training)
  # All processes wait until the first has published its mirror.
  compute.exchanged(b'')
  if training.process_id:
    remote.at(out).fetch()


def check_processes(training: Training) -> None:
  """Raises InputError for a process id or coordinator that does not fit."""
  if training.process_id >= training.num_processes:
    raise core.InputError(
      f'--process_id={training.process_id} of '
      f'--num_processes={training.num_processes}: expected 0 to '
      f'{training.num_processes - 1}'
    )
  if training.coordinator == _JOINED:
    return
  place = re.fullmatch(r'\S+:(\d{1,5})', training.coordinator or '')
  distributed = training.num_processes > 1 or training.coordinator is not None
  if distributed and not (place and 0 < int(place[1]) < 1 << 16):
    raise core.InputError(
      f'--coordinator={training.coordinator}: expected host:port of process 0 '
      f'of the {training.num_processes}'
    )


def start_jax(training: Training) -> None:
  """Prepares JAX, and joins the other processes of the run."""
  compute.prepare_jax()
  if training.num_processes > 1 and not jax.distributed.is_initialized():
    jax.distributed.initialize(
      training.coordinator, training.num_processes, training.process_id
    )
