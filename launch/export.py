"""Writes questions for a language model as a task of lm-evaluation-harness.

  python launch/export.py --task=wm/mango_route --out=tasks \\
    --option=folder=camera-ready-70.tar.gz --option=game=zork1
  lm_eval run --include_path tasks --tasks wm_mango_route --model hf ...

--task is one of those for Inspect, and an --option one of its options. Replies
are read and scored as there, but each question is asked once. The folder gets a
YAML file, the questions as JSONL, and a Python file that calls wm.
"""

import json
from typing import Any

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call."""
  common.require('task', 'out')
  import wm
  from wm import core

  options: dict[str, Any] = {}
  for text in FLAGS.option:
    name, equals, value = text.partition('=')
    if not equals:
      raise core.InputError(f'--option={text}: expected NAME=VALUE')
    try:
      options[name] = json.loads(value)  # A number, true or false.
    except ValueError:
      options[name] = value
  wm.export(FLAGS.task, FLAGS.out, options, log=print)


if __name__ == '__main__':
  common.run(main, 'task', 'option')
