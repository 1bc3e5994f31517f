"""Serves a page in which to walk a world beside what a model says of it.

  python launch/explore.py --run=runs/quickstart/random_walks
  python launch/explore.py --run=runs/quickstart/shortest_paths \\
    --run=runs/quickstart/random_walks
  python launch/explore.py --world='othello(size=6)' --model='oracle()'
  python launch/explore.py --run=runs/quickstart/random_walks \\
    --open='prefix=25+47+N'

Prints the page's address and opens it. Tokens are chosen on the world's picture
or from a list: legal ones that the model accepts (--accept) are green, illegal
ones that it accepts are red, legal ones that it refuses are grey. The page
finds two ways to one place, tells two places apart, reads the state by a probe,
and jumps to the worst trials of the run's results. --run is
repeated for models side by side, up to four; --model is one that needs no
training, or is used untrained with --checkpoint=none. --open is the view to
begin with: the page's address has it after '#'.

The page is served on 127.0.0.1 alone, at an address with a random token, until
Ctrl-C. It needs `pip install -e '.[explore]'`.
"""

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call, and a page until Ctrl-C."""
  import webbrowser

  import wm
  from wm import core

  runs = list(FLAGS.run)
  if FLAGS.model:
    from wm.library import loading

    if FLAGS.checkpoint != 'none' and loading.is_trained(FLAGS.model):
      raise core.InputError(
        f'--model={FLAGS.model} needs training; expected --run=FOLDER, or '
        '--checkpoint=none to see it untrained'
      )
    runs.append(FLAGS.model)
  if not runs:
    raise core.InputError('--run or --model is required')
  accept = {'accept': FLAGS.accept} if FLAGS.accept else {}
  page = wm.explore(
    runs,
    FLAGS.world,
    **accept,
    port=FLAGS.port,
    fragment=FLAGS.open,
    checkpoint=FLAGS.checkpoint,
    seed=FLAGS.seed,
  )
  print(page.url, flush=True)
  if FLAGS.browser:
    webbrowser.open(page.url)
  page.wait()


if __name__ == '__main__':
  common.run(
    main,
    *('run', 'world', 'model', 'checkpoint', 'accept', 'port', 'open'),
    'browser',
  )
