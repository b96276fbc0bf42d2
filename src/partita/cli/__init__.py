"""The command line: reads words, calls the library, shows what it says."""

from partita.cli.command import main

__all__ = ["main"]
