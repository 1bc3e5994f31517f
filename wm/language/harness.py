"""Writes tasks for lm-evaluation-harness, from those for Inspect.

    python -m wm export --task=mango_route \\
      --option=folder=camera-ready-70.tar.gz --out=tasks
    lm_eval run --include_path tasks --tasks wm_mango_route --model hf ...

Of each task the folder has

    wm_NAME.yaml    what lm_eval reads
    wm_NAME.jsonl   a question a line: prompt, target, and its metadata as JSON
    wm_NAME.py      calls `exported`, so that the scorer of the Inspect task
                    reads the replies

lm_eval asks once, so CogEval is asked with `turns=one`: description, change and
question are one message. No model is there yet when questions are written, so
tokens of prompts are estimated.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from wm import core
from wm.core import inputs
from wm.options.calls import Path
from wm.runtime import files

with inputs.extra('language', 'a task for a language model'):
  from inspect_ai import Task
  from inspect_ai.dataset import Sample
  from inspect_ai.model import ModelName, ModelOutput
  from inspect_ai.scorer import Target
  from inspect_ai.solver import TaskState

  from wm.language import papers, provider, world_task

# Of tasks that have these options, where the caller sets no others.
DEFAULTS = {'turns': 'one', 'tokenizer': 'estimate'}
# Scores of which less is better.
FAILURES = (
  *('copied', 'error', 'error_unknown', 'hallucinated_edge', 'no_answer'),
  *('repaired', 'unknown_moves', 'unknown_places', 'unread'),
)
MAX_TOKENS = 1024  # Of a reply, where the task sets no limit.

_CODE = '''"""Questions of wm/{task} for lm_eval. wm scores the replies."""

from wm.language import harness

dataset, process_results = harness.exported(__file__, {task!r}, {options!r})
mean = harness.mean
'''


def export(
  task: str,
  out: Path,
  options: Mapping[str, Any] | None = None,
  *,
  log: Callable[[str], None] = lambda line: None,
) -> pathlib.Path:
  """Writes a task for lm-evaluation-harness.

  Args:
    task: of Inspect: 'world', 'cogeval', 'forces', 'mango_route', ...
    out: folder, for `lm_eval --include_path`.
    options: of the task, as `-T NAME=VALUE` gives them to Inspect.
    log: gets the number of questions, and a command.

  Returns:
    Path of the YAML file.

  Raises:
    InputError: no such task or option, or one that asks more than once.
  """
  name = task.rpartition('/')[2]
  makers = tasks()
  inputs.check_known(name, makers, f'no task {task!r}')
  options = dict(options or {})
  if (form := options.get('form', 'text')) != 'text':
    raise core.InputError(f"form={form!r}: lm_eval reads texts, form='text'")
  for key in inspect.signature(makers[name]).parameters:
    if key in DEFAULTS:
      options.setdefault(key, DEFAULTS[key])
  inspect_task = _task(name, json.dumps(options))
  records = [_record(sample) for sample in inspect_task.dataset]
  folder = pathlib.Path(out)
  folder.mkdir(parents=True, exist_ok=True)
  stem = f'wm_{name}'
  lines = [json.dumps(record, ensure_ascii=False) for record in records]
  files.write_text(folder / f'{stem}.jsonl', '\n'.join(lines) + '\n')
  code = _CODE.format(task=name, options=options)
  files.write_text(folder / f'{stem}.py', code)
  path = folder / f'{stem}.yaml'
  files.write_text(
    path, _yaml(stem, inspect_task, _scores(inspect_task, records[0], ''))
  )
  log(f'{len(records):,} questions')
  log(f'lm_eval run --include_path {folder} --tasks {stem} --model ...')
  return path


def exported(
  place: str, task: str, options: Mapping[str, Any]
) -> tuple[Callable[..., Any], Callable[..., dict[str, float]]]:
  """What lm_eval calls of an exported task: its questions, and their scores.

  place: path of the task's Python file, beside which the questions are.
  """

  def dataset(**metadata: Any) -> Any:
    """The questions, as lm_eval's `custom_dataset`."""
    import datasets

    del metadata
    questions = pathlib.Path(place).with_suffix('.jsonl')
    lines = questions.read_text(encoding='utf-8').splitlines()
    rows = datasets.Dataset.from_list([json.loads(line) for line in lines])
    return datasets.DatasetDict({'test': rows})

  def process_results(
    doc: Mapping[str, Any], results: Sequence[str]
  ) -> dict[str, float]:
    """The scores of a reply, as lm_eval's `process_results`."""
    return _scores(_task(task, json.dumps(options)), doc, results[0])

  return dataset, process_results


def mean(values: Sequence[float]) -> float:
  """The mean of those that are measured; NaN where none is."""
  measured = [value for value in values if not math.isnan(value)]
  return sum(measured) / len(measured) if measured else math.nan


def tasks() -> dict[str, Callable[..., Task]]:
  """Name -> function of all tasks, 'mango_route' of `wm/mango_route`."""
  places = [papers.load(paper, 'task') for paper in papers.names()]
  return {
    name: make
    for place in (world_task, *places)
    for name, make in vars(place).items()
    if inspect.isfunction(make)
    and inspect.signature(make).return_annotation is Task
  }


@functools.cache
def _task(name: str, options: str) -> Task:
  """A task of Inspect by its name; options: as JSON."""
  return tasks()[name](**json.loads(options))


def _record(sample: Sample) -> dict[str, str]:
  """A question as a line of JSON; messages of a conversation in one prompt."""
  if (sample.metadata or {}).get('second'):
    raise core.InputError(
      f'{sample.id} has two turns; lm_eval asks once: expected turns=one'
    )
  prompt = sample.input
  if not isinstance(prompt, str):
    prompt = '\n\n'.join(message.text for message in prompt)
  return {
    'id': str(sample.id),
    'prompt': prompt,
    'target': json.dumps(sample.target),
    'metadata': json.dumps(sample.metadata),
  }


def _scores(
  inspect_task: Task, doc: Mapping[str, Any], reply: str
) -> dict[str, float]:
  """What the scorer of a task says of a reply."""
  state = TaskState(
    model=ModelName('wm/recorded'),
    sample_id=doc['id'],
    epoch=1,
    input=doc['prompt'],
    messages=[],
    output=ModelOutput.from_content('wm/recorded', reply),
    metadata=json.loads(doc['metadata']),
  )
  (judge,) = cast(Any, inspect_task.scorer)
  score: Any = provider.wait(judge(state, Target(json.loads(doc['target']))))
  return {name: float(value) for name, value in score.value.items()}


def _yaml(stem: str, inspect_task: Task, metrics: Mapping[str, float]) -> str:
  """What lm_eval reads of a task."""
  lines = [
    f'task: {stem}',
    f'custom_dataset: !function {stem}.dataset',
    'test_split: test',
    'output_type: generate_until',
    "doc_to_text: '{{prompt}}'",
    "doc_to_target: '{{target}}'",
    f'process_results: !function {stem}.process_results',
    'generation_kwargs:',
    '  until: []',
    '  do_sample: false',
    f'  max_gen_toks: {inspect_task.config.max_tokens or MAX_TOKENS}',
    'metric_list:',
  ]
  for name in metrics:
    lines += [
      f'  - metric: {name}',
      f'    aggregation: !function {stem}.mean',
      f'    higher_is_better: {str(name not in FAILURES).lower()}',
    ]
  return '\n'.join(
    [*lines, 'metadata:', f'  version: {inspect_task.version}', '']
  )
