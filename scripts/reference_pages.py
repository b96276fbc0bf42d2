"""An mkdocs hook: the pages of the reference that are made from help texts and from the OpenAPI document."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from io import StringIO
from typing import Any

from mkdocs.structure.files import File

from partita.cli.command import COMMANDS, main
from partita.web.openapi import openapi_document

KEY_COMMANDS = ("encode", "decode", "id")
HELP_WIDTH = "100"
EXIT_CODES = """\
A command that is refused prints the reason and exits with 2. `partita run` exits with 0 if every partition was
made, 1 if one failed, was skipped or is left, and 130 if it was stopped by Ctrl-C or SIGTERM. `partita status
--check` exits with 1 if a partition is not current."""


def on_files(files: Any, config: Any) -> Any:
    """Add the pages to those of docs/."""
    for path, text in (("reference/cli.md", command_line_page()), ("reference/http.md", http_page())):
        files.append(File.generated(config, path, content=text))
    return files


def command_line_page() -> str:
    """Return the help of every command as Markdown."""
    parts = [
        "# Command line",
        EXIT_CODES,
        f"```text\n{help_text()}\n```",
    ]
    for name in COMMANDS:
        parts += [f"## partita {name}", f"```text\n{help_text(name)}\n```"]
        if name == "key":
            for subcommand in KEY_COMMANDS:
                parts += [f"### partita key {subcommand}", f"```text\n{help_text(name, subcommand)}\n```"]
    return "\n\n".join(parts) + "\n"


def help_text(*command: str) -> str:
    """Return what `partita COMMAND --help` prints."""
    columns = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = HELP_WIDTH
    page = StringIO()
    try:
        with redirect_stdout(page), suppress(SystemExit):
            main([*command, "--help"])
    finally:
        if columns is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = columns
    return page.getvalue().strip()


def http_page() -> str:
    """Return the operations of the API of `partita ui` as Markdown."""
    rows = "\n".join(_operation_rows(openapi_document()))
    return f"""# HTTP API

`partita ui` answers these questions as JSON, and `/api/openapi.json` has the schemas of the responses. `where` is a
predicate on the dimensions of keys, `state` and `reason` are those of `Lake.status`, and the token is sent as
`Authorization: Bearer TOKEN`.

| operation | parameters | answer |
|---|---|---|
{rows}

| status | means |
|---|---|
| 400, 404 | the question is refused: `{{"error": {{"type": ..., "message": ...}}}}` |
| 401, 403 | the token is missing; the Host or the Origin is another one, or the operation is not allowed |
| 409 | another run is at work |
| 503, 504 | too many slow questions of this kind; the answer takes more than 30 seconds |
"""


def _operation_rows(document: dict[str, Any]) -> Iterator[str]:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            names = ", ".join(f"`{parameter['name']}`" for parameter in operation.get("parameters", ()))
            yield f"| `{method.upper()} {path}` | {names} | {operation['summary']} |"
