"""wm: does this sequence model have a world model, and how good is it?"""

__version__ = '0.1.0'
