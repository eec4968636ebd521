"""A page whose code blocks are run: files that it shows are written, commands are executed, their output compared.

A block with `title="name"` is a file. In a `console` block a line after `$` is a command, what follows is its output, where
`...` stands for anything; a command that ends with `&` goes on until the page does.
"""

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
_FENCE = re.compile(r"^```", re.MULTILINE)
STOP_SECONDS = 40


class Block(NamedTuple):
    """One code block: its language, the file that it is, and its text."""

    language: str
    title: str
    text: str


def blocks(page: str) -> list[Block]:
    """All code blocks of a Markdown page. Raises: ValueError where one is not understood."""
    found = [Block(*match.groups(default="")) for match in _BLOCK.finditer(page)]
    if len(found) * 2 != len(_FENCE.findall(page)):
        raise ValueError("a code block has no language, or its opening line is not understood")
    return found


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """The commands of a console block, each with the output that the page shows."""
    command, shown = "", ""
    for line in block.text.splitlines(keepends=True):
        if line.startswith("$ "):
            if command:
                yield command, shown
            command, shown = line[2:].strip(), ""
        else:
            shown += line
    yield command, shown


@dataclass
class Reader:
    """Somebody who does in `directory` what a page says, with the environment `environment`."""

    directory: Path
    environment: Mapping[str, str]
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.running:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(STOP_SECONDS)

    def follow(self, block: Block) -> None:
        """Do what the block says. Raises: AssertionError where something else comes of it."""
        if block.title:
            (self.directory / block.title).write_text(block.text)
            return
        assert block.language == "console", f"nothing says what this block is:\n{block.text}"
        for command, shown in commands(block):
            if command.endswith("&"):
                self._start(command.removesuffix("&"))
            else:
                self._check(command, shown)

    def _start(self, command: str) -> None:
        process = subprocess.Popen(
            f"exec {command}", shell=True, cwd=self.directory, env=self.environment, start_new_session=True
        )
        self.running.append(process)

    def _check(self, command: str, shown: str) -> None:
        run = subprocess.run(
            command,
            shell=True,
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        same = OutputChecker().check_output(shown.strip(), run.stdout.strip(), ELLIPSIS | NORMALIZE_WHITESPACE)
        assert same, f"$ {command}\nshown:\n{shown}\nprinted:\n{run.stdout}"
