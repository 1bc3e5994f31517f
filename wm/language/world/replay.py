"""Logs of `wm/world` as results of `score`: the same metrics, nothing asked."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from wm import core
from wm.core import registry
from wm.core.queries import Answer
from wm.evaluation import scoring as trials
from wm.language.world import questions, scoring
from wm.models.serving import provider

if TYPE_CHECKING:
  from inspect_ai.log import EvalLog, EvalSample

# All that a log holds was asked already.
NO_LIMIT = 1 << 40


def answers(log: EvalLog) -> Iterator[tuple[dict[str, Any], Answer]]:
  """Metadata of each sample and what it was answered, epoch by epoch.

  Raises:
    InputError: the log is of another task or version.
  """
  for sample in log.samples or ():
    yield sample.metadata, _answer(sample)


def _answer(sample: EvalSample) -> Answer:
  if sample.error is not None:
    # Inspect keeps what the error said, in place of the error.
    said = f'{sample.error.message} {sample.error.traceback}'
    return Answer(None, provider.named_cause(said))
  found = (sample.scores or {}).get('answers')
  if found is None:
    return Answer(None, 'not_scored')
  return scoring.answered(found.metadata or {})


def score(
  logs: Sequence[EvalLog],
  out: pathlib.Path,
  log: Callable[[str], None] = lambda line: None,
) -> list[pathlib.Path]:
  """Runs the metrics of logs on their answers.

  Args:
    logs: of `wm/world`.
    out: each log and variant gets a folder in OUT/logs, as `score` writes it.
    log: gets what scoring tells.

  Returns:
    The folders.
  """
  folders = []
  for run in logs:
    known = scoring.gathered(answers(run))
    for setting, found in known.items():
      name = run.eval.model
      if len(known) > 1:
        name = f'{name} ({setting.label})'
      mark = re.sub(r'[^\w.-]+', '-', f'{run.eval.task_id}-{setting.label}')
      folders.append(out / 'logs' / mark)
      predictor = scoring.predictor(setting, found)
      # Tables compare the tellings of one model by its spec.
      spec = registry.spec(setting.model(run.eval.model))
      one(setting, predictor, name, folders[-1], log, spec)
  return folders


def one(
  setting: questions.Setting,
  predictor: core.QueryModel,
  name: str,
  folder: pathlib.Path,
  log: Callable[[str], None] = lambda line: None,
  spec: str = '',
) -> list[dict[str, Any]]:
  """Entries of the metrics of a setting; see wm.score."""
  return trials.run(
    predictor,
    questions.made_world(setting.world),
    [registry.make('metric', spec) for spec in setting.metrics],
    seed=setting.seed,
    model_name=name,
    out=folder,
    extra={'model_spec': spec or name, 'checkpoint': 'none'},
    max_calls=NO_LIMIT,
    log=log,
  )
