"""docs/gitops.md: what no Argo CD runs of it is at least what the repository has."""

import os
import re
import subprocess
from pathlib import Path

from tests.gitops.page import PAGE, section
from tests.gitops.program import Program
from tests.gitops.repository import PUBLISHED_URL, ROOT
from tests.tutorial import blocks, commands


def test_the_commands_for_flux_build_manifests_of_the_users_own_repository(program: Program, tmp_path: Path) -> None:
    """Up to kubectl: Flux itself is not here."""
    (tmp_path / "kubectl").write_text(f'#!/bin/sh\nshift\nexec {program.binary} kustomize build "$@"\n')
    (tmp_path / "kubectl").chmod(0o700)
    variables = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "REPOSITORY": "https://git.example.org/mine"}
    [block] = section("Install with Flux")
    [(command, _)] = commands(block)
    build, last = command.rsplit("|", 1)
    assert last.strip() == "kubectl apply --server-side -f -"
    built = subprocess.run(
        build, shell=True, cwd=ROOT, env=variables, capture_output=True, text=True, check=True
    ).stdout
    assert "https://git.example.org/mine" in built
    assert PUBLISHED_URL not in built


def test_every_other_block_is_run() -> None:
    run = [section(heading) for heading in ("Install", "Look", "Delete", "Install with Flux")]
    assert [block for blocks_of in run for block in blocks_of] == blocks(PAGE.read_text())


def test_the_named_directories_are_there() -> None:
    named = set(re.findall(r"`(config/[a-z/]+)`", PAGE.read_text()))
    assert named
    assert all((ROOT / each).is_dir() for each in named)
