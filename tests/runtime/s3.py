"""An S3 server on the loopback address, and a proxy that fails requests."""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

BUCKET = 'models'
# Short waits: what stalls is tried again within the test.
CONFIG = (
  '{"config_kwargs": {"read_timeout": 1, "connect_timeout": 1, '
  '"retries": {"max_attempts": 3}}}'
)


# A binary that publishes more often.
_RUN = (
  'import os, runpy, sys; sys.argv.pop(0); '
  'sys.path.insert(0, os.path.dirname(sys.argv[0])); '
  'from wm.runtime import remote; remote.EVERY, remote.LIFE = 0.5, 8; '
  "runpy.run_path(sys.argv[0], run_name='__main__')"
)


def environment(port: int, cache: pathlib.Path) -> dict[str, str]:
  """Variables by which a process finds the server, with a cache of its own."""
  return {
    'AWS_ENDPOINT_URL': f'http://127.0.0.1:{port}',
    'AWS_ACCESS_KEY_ID': 'name',
    'AWS_SECRET_ACCESS_KEY': 'secret',
    'AWS_DEFAULT_REGION': 'us-east-1',
    'FSSPEC_S3': CONFIG,
    'XDG_CACHE_HOME': str(cache),
  }


def _free() -> int:
  with socket.socket() as probe:
    probe.bind(('127.0.0.1', 0))
    return probe.getsockname()[1]


@contextlib.contextmanager
def served(log: pathlib.Path) -> Iterator[int]:
  """Runs moto's server, with an empty bucket; its port."""
  with started(log, 'moto.server', '-H', '127.0.0.1', '-p') as port:
    _request(port, f'PUT /{BUCKET} HTTP/1.1\r\nHost: a\r\n')
    yield port


@contextlib.contextmanager
def started(log: pathlib.Path, *command: str) -> Iterator[int]:
  """Runs a module with a port as its last argument; the port."""
  port = _free()
  with open(log, 'w') as out:
    process = subprocess.Popen(
      [sys.executable, '-m', *command, str(port)], stdout=out, stderr=out
    )
  try:
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
      with contextlib.suppress(OSError):
        socket.create_connection(('127.0.0.1', port)).close()
        break
      time.sleep(0.05)
    yield port
  finally:
    process.terminate()
    process.wait()


def _request(port: int, head: str) -> None:
  with socket.create_connection(('127.0.0.1', port)) as server:
    server.sendall(f'{head}Content-Length: 0\r\n\r\n'.encode())
    assert b'200' in server.recv(4096)


@contextlib.contextmanager
def failing(port: int, share: float, seed: int = 0) -> Iterator[_Proxy]:
  """A proxy before a port that spoils a share of all connections."""
  proxy = _Proxy(port, share, random.Random(seed))
  proxy.start()
  try:
    yield proxy
  finally:
    proxy.listener.close()


class _Proxy(threading.Thread):
  """Passes bytes on; some connections are refused, cut, or stall.

  Attributes:
    port: where it listens.
    spoilt: kind of fault -> how many there were.
  """

  def __init__(self, port: int, share: float, dice: random.Random) -> None:
    super().__init__(daemon=True)
    self._to, self._share, self._dice = port, share, dice
    self.listener = socket.create_server(('127.0.0.1', 0))
    self.port = self.listener.getsockname()[1]
    self.spoilt = {'refused': 0, 'half': 0, 'stalled': 0}

  def run(self) -> None:
    with contextlib.suppress(OSError):
      while True:
        client = self.listener.accept()[0]
        threading.Thread(
          target=self._serve, args=(client,), daemon=True
        ).start()

  def _serve(self, client: socket.socket) -> None:
    fault = ''
    if self._dice.random() < self._share:
      fault = self._dice.choice([*self.spoilt])
      self.spoilt[fault] += 1
    with contextlib.suppress(OSError), client:
      if fault == 'refused':
        return
      with socket.create_connection(('127.0.0.1', self._to)) as server:
        back = threading.Thread(
          target=self._pass, args=(server, client, fault), daemon=True
        )
        back.start()
        self._pass(client, server, '')
        back.join()

  def _pass(
    self, source: socket.socket, target: socket.socket, fault: str
  ) -> None:
    """Passes bytes on until one side ends; of an answer perhaps only half."""
    with contextlib.suppress(OSError):
      while data := source.recv(1 << 16):
        if fault == 'stalled':
          time.sleep(2)
        if fault:
          target.sendall(data[: len(data) // 2])
          break
        target.sendall(data)
    for end in (source, target):
      with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


def binary(
  root: pathlib.Path, env: dict[str, str], name: str, *flags: str
) -> subprocess.Popen:
  """Starts a binary of launch/."""
  return subprocess.Popen(
    [sys.executable, '-c', _RUN, str(root / 'launch' / f'{name}.py'), *flags],
    env={**os.environ, **env},
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  )


def until(
  done: Callable[[], bool], process: subprocess.Popen, limit: float = 300
) -> None:
  """Waits until something is so while a process runs."""
  end = time.monotonic() + limit
  while not done():
    assert process.poll() is None, process.communicate()[1]
    assert time.monotonic() < end
    time.sleep(0.1)
