"""The command line `partita`: it parses arguments, calls the library and prints the result."""

from partita.cli.command import main

__all__ = ["main"]
