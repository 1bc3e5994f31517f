"""A provider of a language model that is played, without Inspect."""

import random
import threading

from tests.language.stand_ins import worlds
from tests.language.stand_ins.asked import Asked
from wm.language.answer_cache import CallReply


class Played:
  """Plays `provider.replies`; counts the calls."""

  def __init__(self, knows='solver'):
    self.knows, self.calls, self.settings = knows, [], None
    self.reply = self.known

  def known(self, prompt):
    draws = random.Random(prompt)
    return CallReply(worlds.answer(Asked([prompt], self.knows, draws)))

  def __call__(self, settings, prompts, each, solutions, ledger):
    self.settings = settings
    self.calls += prompts

    def work():  # As providers are: on another thread.
      for number, prompt in enumerate(prompts):
        each(number, self.reply(prompt))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
