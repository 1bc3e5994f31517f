"""The tasks of a flagfile on a queue of SLURM, by dask-jobqueue.

  pip install dask-jobqueue
  source launch/cluster/tls.sh ~/.config/wm-tls
  python launch/cluster/jobqueue.py study launch/flags/quickstart.flags

Between 1 and 200 jobs of a processor each are queued as there is work. Another
queue is another class of dask-jobqueue: PBSCluster, SGECluster, LSFCluster.
"""

import argparse
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def main() -> int:
  """Starts the cluster, runs the binary on it, and gives its exit code."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument('binary', help='one that takes --cluster, e.g. study')
  parser.add_argument('flagfile')
  parser.add_argument('--jobs', type=int, default=200, help='most at a time')
  parser.add_argument('--memory', default='4GB', help='of a job')
  parser.add_argument('--time', default='04:00:00', help='of a job')
  options = parser.parse_args()
  import dask_jobqueue
  import distributed

  with dask_jobqueue.SLURMCluster(
    cores=1,
    processes=1,
    memory=options.memory,
    walltime=options.time,
    protocol='tls://',
    security=distributed.Security(require_encryption=True),
    job_script_prologue=[f'cd {ROOT}', f'export PYTHONPATH={ROOT}'],
  ) as cluster:
    cluster.adapt(minimum=1, maximum=options.jobs)
    command = [
      sys.executable,
      str(ROOT / 'launch' / f'{options.binary}.py'),
      f'--flagfile={options.flagfile}',
      f'--cluster={cluster.scheduler_address}',
    ]
    return subprocess.run(command, check=False).returncode


if __name__ == '__main__':
  sys.exit(main())
