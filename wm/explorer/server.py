"""The explorer's web application: a page, and the views that it asks for.

It is for the person at this machine. It listens on the loopback address alone;
every address holds a random token; the Host and Origin of a request must be its
own, so that no page of another site can ask it anything, whatever name it
resolves to 127.0.0.1; a request of more than a few kilobytes is refused.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from wm import core
from wm.explorer.views import Explorer, View
from wm.runtime import pages

if TYPE_CHECKING:
  from starlette.applications import Starlette
  from starlette.requests import Request
  from starlette.responses import Response

HOST = '127.0.0.1'
MOST_BYTES = 1 << 16  # Of a request.
# Nothing from elsewhere is loaded.
_POLICY = (
  "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'unsafe-inline'; "
  "connect-src 'self'; base-uri 'none'; form-action 'none'"
)
_HEADERS = {
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
  'Cache-Control': 'no-store',
}


def _answers(explorer: Explorer) -> dict[str, Callable[[View], View]]:
  """What the page may ask, by name; each takes the request's fields."""

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
    'patch': lambda query: explorer.patch(
      *(model(query), prefix(query)),
      *(number(query, 'label'), number(query, 'value')),
    ),
  }


def application(
  explorer: Explorer, token: str, port: int | None = None
) -> Starlette:
  """The application; `token` is the first part of every address.

  port: that Host must name; None lets any (tests).
  """
  # Deferred: starlette is an extra.
  from starlette.applications import Starlette
  from starlette.concurrency import run_in_threadpool
  from starlette.responses import HTMLResponse, JSONResponse
  from starlette.routing import Route

  answers = _answers(explorer)
  hosts = {HOST, 'localhost'}
  hosts |= {f'{host}:{port}' for host in hosts} if port else set()
  nonce = secrets.token_urlsafe(
    16
  )  # Scripts of a picture or a name do not run.
  page = pages.render(
    *('wm.explorer', 'explorer.html'), about=explorer.about(), nonce=nonce
  )
  shown = _HEADERS | {'Content-Security-Policy': _POLICY.format(nonce=nonce)}

  def refused(text: str, status: int) -> Response:
    return JSONResponse({'error': text}, status, headers=_HEADERS)

  def checked(
    answer: Callable[[Request], Awaitable[Response]],
  ) -> Callable[[Request], Awaitable[Response]]:
    async def guarded(request: Request) -> Response:
      host = request.headers.get('host', '')
      origin = request.headers.get('origin')
      if port and host not in hosts:
        return refused('this host is not served', 403)
      if origin and origin != f'http://{host}':
        return refused('requests of other pages are not served', 403)
      given = str(request.path_params['token'])
      if not hmac.compare_digest(given.encode(), token.encode()):
        return refused('this address is no longer valid', 403)
      return await answer(request)

    return guarded

  async def show(_: Request) -> Response:
    return HTMLResponse(page, headers=shown)

  async def ask(request: Request) -> Response:
    answer = answers.get(str(request.path_params['view']))
    if answer is None:
      return refused(f'no such view; available: {", ".join(answers)}', 404)
    body = b''
    async for chunk in request.stream():
      body += chunk
      if len(body) > MOST_BYTES:
        return refused(f'more than {MOST_BYTES} bytes', 413)
    try:
      query = json.loads(body or b'{}')
    except (ValueError, RecursionError):
      return refused('expected JSON', 400)
    if not isinstance(query, dict):
      return refused('expected an object', 400)
    try:
      view = await run_in_threadpool(_locked, explorer, answer, query)
    except core.InputError as error:
      return refused(str(error), 422)
    return JSONResponse(view, headers=_HEADERS)

  return Starlette(
    routes=[
      Route('/{token}/', checked(show)),
      Route('/{token}/{view}', checked(ask), methods=['POST']),
    ]
  )


def _locked(
  explorer: Explorer, answer: Callable[[View], View], query: View
) -> View:
  # One at a time: ten tabs would otherwise trace and compile side by side.
  with explorer.lock:
    return answer(query)


class Server:
  """A running explorer; `url` opens it, `stop` ends it."""

  def __init__(self, explorer: Explorer, port: int = 0):
    """Binds the port; 0 is any that is free.

    Raises:
      InputError: the port is taken, or the extra is not installed.
    """
    try:
      import uvicorn
    except ImportError as error:
      raise core.InputError(
        f"the explorer needs pip install -e '.[explore]' ({error})"
      ) from error

    self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
      self._socket.bind((HOST, port))
      self._socket.listen()  # The first request waits until it is served.
    except (OSError, OverflowError) as error:
      raise core.InputError(f'port={port} cannot be used: {error}') from error
    self.port = int(self._socket.getsockname()[1])
    token = secrets.token_urlsafe(16)
    self.url = f'http://{HOST}:{self.port}/{token}/'
    app = application(explorer, token, self.port)
    self._server = uvicorn.Server(
      uvicorn.Config(app, log_level='error', lifespan='off', workers=1)
    )

  def run(self) -> None:
    """Serves until `stop` is called; not for the main thread.

    There uvicorn would take signals, which `runtime.stopping` answers.
    """
    asyncio.run(self._server.serve(sockets=[self._socket]))

  def stop(self) -> None:
    """Ends `run` soon."""
    self._server.should_exit = True
