"""The explorer's web application: a page, and the views that the page requests.

The server is for local use. It listens only on the loopback address. Every URL
holds a random token. The Host and Origin of a request must be the server's own,
which blocks other sites, also those whose names resolve to 127.0.0.1. The
server refuses requests above 64 KiB.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from wm import core
from wm.core import inputs, schema
from wm.explorer.views import Explorer, View
from wm.runtime import pages

if TYPE_CHECKING:
  from starlette.applications import Starlette
  from starlette.requests import Request
  from starlette.responses import Response

HOST = '127.0.0.1'
MOST_BYTES = 1 << 16  # Of a request.
QUICK = ('walk', 'follow')  # Fast views, which run beside a slow one.
# The page loads nothing from other sites.
_POLICY = (
  "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'unsafe-inline'; "
  "connect-src 'self'; base-uri 'none'; form-action 'none'"
)
_HEADERS = {
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
  'Cache-Control': 'no-store',
}


_TOKENS = schema.List(str | int)


def _answers(explorer: Explorer) -> dict[str, Callable[[View], View]]:
  """Views by name; each function takes the fields of a request."""

  def prefix(query: View, name: str = 'tokens') -> Any:
    return explorer.tokens(query.get(name, []))

  def number(query: View, name: str) -> int:
    value = query.get(name, 0)
    if type(value) is not int or abs(value) >= 2**31:
      raise core.InputError(f'{name}: expected an integer')
    return value

  def model(query: View) -> str:
    return str(query.get('model', ''))

  def second(query: View) -> Any:
    return prefix(query, 'second') if query.get('second') else None

  return {
    'walk': lambda query: explorer.walk(prefix(query)),
    'follow': lambda query: explorer.follow(
      model(query), prefix(query), number(query, 'seed') % 2**31
    ),
    'twins': lambda query: explorer.twins(
      prefix(query), number(query, 'seed') % 2**31
    ),
    'apart': lambda query: explorer.apart(prefix(query), second(query)),
    'read': lambda query: explorer.read(model(query), prefix(query)),
  }


def application(
  explorer: Explorer, token: str, port: int | None = None
) -> Starlette:
  """The application; `token` is the first part of every address.

  port: required in Host and Origin. None allows any, for use behind a proxy,
    which changes Host: then only the token authenticates a request.
  """
  # Deferred: starlette is an extra.
  from starlette import applications, exceptions, responses, routing

  answers = _answers(explorer)
  nonce = secrets.token_urlsafe(16)  # A script of a picture does not run.
  page = pages.render(
    *('wm.explorer', 'explorer.html'), about=explorer.about(), nonce=nonce
  )
  policy = {'Content-Security-Policy': _POLICY.format(nonce=nonce)}

  async def show(request: Request) -> Response:
    _check(request, token, port)
    return responses.HTMLResponse(page, headers=_HEADERS | policy)

  async def ask(request: Request) -> Response:
    _check(request, token, port)
    view = await _answered(request, explorer, answers)
    return responses.JSONResponse(view, headers=_HEADERS)

  async def refuse(_: Request, error: Any) -> Response:
    line = {'error': error.detail}
    return responses.JSONResponse(line, error.status_code, headers=_HEADERS)

  return applications.Starlette(
    routes=[
      routing.Route('/{token}/', show),
      routing.Route('/{token}/{view}', ask, methods=['POST']),
    ],
    exception_handlers={exceptions.HTTPException: refuse},
  )


def _check(request: Request, token: str, port: int | None) -> None:
  """Raises HTTPException for a request that is not from our own page."""
  from starlette.exceptions import HTTPException

  host = request.headers.get('host', '')
  origin = request.headers.get('origin')
  if port and host not in (f'{HOST}:{port}', f'localhost:{port}'):
    raise HTTPException(403, 'this host is not served')
  if port and origin and origin != f'http://{host}':
    raise HTTPException(403, 'requests of other pages are not served')
  name = str(request.path_params['token'])
  if not hmac.compare_digest(name.encode(), token.encode()):
    raise HTTPException(403, 'this address is no longer valid')


async def _answered(
  request: Request,
  explorer: Explorer,
  answers: Mapping[str, Callable[[View], View]],
) -> View:
  """The requested view; raises HTTPException for a bad request."""
  from starlette.concurrency import run_in_threadpool
  from starlette.exceptions import HTTPException

  name = str(request.path_params['view'])
  answer = answers.get(name)
  if answer is None:
    raise HTTPException(404, f'no such view; available: {", ".join(answers)}')
  body = b''
  async for chunk in request.stream():
    body += chunk
    if len(body) > MOST_BYTES:
      raise HTTPException(413, f'more than {MOST_BYTES} bytes')
  try:
    query = json.loads(body or b'{}')
  except (ValueError, RecursionError) as error:
    raise HTTPException(400, 'expected JSON') from error
  try:
    schema.check(query, dict, 'the request')
    for field in ('tokens', 'second'):
      if isinstance(listed := query.get(field), list):
        schema.check(listed, _TOKENS, 'the request', field)
  except core.InputError as error:
    raise HTTPException(400, str(error)) from error
  try:
    if name in QUICK:
      return await run_in_threadpool(answer, query)
    return await run_in_threadpool(_one_at_a_time, explorer, answer, query)
  except core.InputError as error:
    raise HTTPException(422, str(error)) from error


def _one_at_a_time(
  explorer: Explorer, answer: Callable[[View], View], query: View
) -> View:
  with explorer.slow:
    return answer(query)


class Server:
  """A running explorer; `url` opens it, `stop` ends it."""

  def __init__(self, explorer: Explorer, port: int = 0, proxied: bool = False):
    """Binds the port; 0 picks a free port.

    proxied: whether requests come through a proxy, see `application`.

    Raises:
      InputError: the port is taken, or the extra is not installed.
    """
    with inputs.extra('explore', 'the explorer'):
      import uvicorn

    self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
      self._socket.bind((HOST, port))
      self._socket.listen()  # The first request waits until it is served.
    except (OSError, OverflowError) as error:
      raise core.InputError(f'port={port} cannot be used: {error}') from error
    self.port = int(self._socket.getsockname()[1])
    token = secrets.token_urlsafe(16)
    self.url = f'http://{HOST}:{self.port}/{token}/'
    app = application(explorer, token, None if proxied else self.port)
    self._server = uvicorn.Server(
      uvicorn.Config(app, log_level='error', lifespan='off', workers=1)
    )

  def run(self) -> None:
    """Serves until `stop` is called; call from a thread, not the main thread.

    In the main thread uvicorn would replace `runtime.stopping`'s signal
    handlers.
    """
    asyncio.run(self._server.serve(sockets=[self._socket]))

  def stop(self) -> None:
    """Ends `run` soon."""
    self._server.should_exit = True
