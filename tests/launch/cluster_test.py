"""The recipes of launch/cluster, as far as one machine can try them.

Stand-ins take the place of srun and gcloud.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from tests.launch import flags_test

ROOT = flags_test.ROOT
PLACE = ROOT / 'launch' / 'cluster'
SHELL = sorted([*PLACE.glob('*.sh'), *PLACE.glob('*.sbatch')])
TRAIN = 'train.yaml'
SMALL = ROOT / 'launch' / 'flags' / 'sizes' / 'small.flags'


@pytest.mark.parametrize('path', SHELL, ids=lambda path: path.name)
def test_shell_is_shell(path):
  subprocess.run(['bash', '-n', path], check=True)
  if tool := shutil.which('shellcheck', path=f'{sys.prefix}/bin:{os.defpath}'):
    done = subprocess.run([tool, '-x', path], cwd=ROOT, capture_output=True)
    assert done.returncode == 0, done.stdout.decode()


def test_recipes_give_flags_that_there_are():
  known = {'flagfile', *flags_test.parsed(str(SMALL))['names']}
  for path in (*SHELL, PLACE / TRAIN):
    text = re.sub(r'^ *#.*$', '', path.read_text(), flags=re.M)
    for command in re.findall(
      r'launch/\S+\.py.*?(?:&|\n *\n|$)',
      text.replace('\\\n', ' ').replace('\n  ', '  '),
    ):
      for flag in re.findall(r' --([\w-]+)', command):
        assert flag in known, (path.name, flag)


def job_set(name: str) -> tuple[dict, dict[str, dict]]:
  """A JobSet, and its replicated jobs by name."""
  yaml = pytest.importorskip('yaml', reason='PyYAML is missing')
  parsed = yaml.safe_load((PLACE / name).read_text())
  assert parsed['apiVersion'] == 'jobset.x-k8s.io/v1alpha2'
  assert parsed['kind'] == 'JobSet'
  jobs = parsed['spec']['replicatedJobs']
  return parsed, {job['name']: job['template']['spec'] for job in jobs}


def test_a_job_set_fits_together():
  parsed, jobs = job_set(TRAIN)
  domain = parsed['spec']['network']['subdomain']
  assert domain == parsed['metadata']['name']
  hosts = {f'{domain}-{job}-0-0.{domain}' for job in jobs}
  for job in jobs.values():
    assert job.get('parallelism') == job.get('completions')
    pod = job['template']['spec']
    (container,) = pod['containers']
    volumes = {volume['name'] for volume in pod['volumes']}
    assert volumes >= {mount['name'] for mount in container['volumeMounts']}
    variables = {entry['name']: entry['value'] for entry in container['env']}
    (script,) = container['args']
    subprocess.run(['bash', '-n', '-c', script], check=True)
    asked = set(re.findall(r'\$(\w+)', script)) - {'JOB_COMPLETION_INDEX'}
    assert asked <= variables.keys()
    for value in variables.values():
      if match := re.search(r'(wm-[\w.-]+):\d+$', value):
        assert match[1] in hosts
    if 'FLAGFILE' in variables:
      assert (ROOT / variables['FLAGFILE']).is_file()
    binary = variables.get('BINARY', 'train')
    assert (ROOT / 'launch' / f'{binary}.py').is_file()
    assert variables.get('PROCESSES', '16') == str(job.get('completions', 16))


def test_the_container_is_made_of_what_there_is():
  text = (PLACE / 'Dockerfile').read_text().replace('\\\n', ' ')
  for words in re.findall(r'^COPY (.*)$', text, re.M):
    for path in words.split()[:-1]:
      assert (ROOT / path).exists(), path
  (extras,) = re.findall(r"'\.\[([\w,]+)\]'", text)
  setup = (ROOT / 'setup.py').read_text()
  assert all(f"'{extra}': [" in setup for extra in extras.split(','))


def stand_in(folder: pathlib.Path, name: str, text: str) -> None:
  path = folder / name
  path.write_text(f'#!/usr/bin/env bash\n{text}\n')
  path.chmod(0o755)


def recipe(tmp_path, name: str, *words: str, **variables: str) -> list[str]:
  """Runs a recipe with the stand-ins of a folder; lines that they logged."""
  environment = {
    **os.environ,
    'PATH': f'{tmp_path}:{os.environ["PATH"]}',
    'LOG': str(tmp_path / 'log'),
    'SLURM_SUBMIT_DIR': str(ROOT),
    **variables,
  }
  subprocess.run(
    ['bash', PLACE / name, *words], check=True, env=environment, timeout=900
  )
  log = tmp_path / 'log'
  return log.read_text().splitlines() if log.exists() else []


def test_training_on_slurm_starts_a_process_a_task(tmp_path):
  stand_in(tmp_path, 'srun', 'shift; for k in 0 1; do "$@"; done')
  stand_in(tmp_path, 'python', 'echo "$*" >>"$LOG"')
  python = str(tmp_path / 'python')
  words = 'launch/flags/laptop.flags', '--steps=5'
  lines = recipe(tmp_path, 'train.sbatch', *words, WM_PYTHON=python)
  command = 'launch/train.py --flagfile=launch/flags/laptop.flags'
  assert lines == [f'{command} --distributed=auto --steps=5'] * 2


def test_training_on_tpus_is_the_same_command_on_all_machines(tmp_path):
  text = """printf '%s\\n' "${*//$'\\n'/ }" >>"$LOG"; [ "$4" != describe ]"""
  stand_in(tmp_path, 'gcloud', text)
  stand_in(tmp_path, 'git', 'true')
  words = 'pod', 'us-x', 'v5litepod-16', 'launch/flags/laptop.flags'
  lines = recipe(tmp_path, 'tpu.sh', *words, "--name=it's")
  called = [line.split()[3] for line in lines]
  assert called == ['describe', 'create', 'scp', 'ssh', 'ssh']
  for line in lines[2:]:
    assert '--worker=all' in line
  command = lines[-1].partition('--command=')[2]
  subprocess.run(['bash', '-n', '-c', command], check=True)
  assert "--distributed=auto --name=it\\'s" in command
