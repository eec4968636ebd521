"""The sample package, installed as anybody would, but offline and into a directory of its own."""

import subprocess
import sys
from pathlib import Path

_PACKAGE = Path(__file__).parent / "quiet_nodes"


def install(target: Path) -> None:
    """Build `quiet_nodes`, and put it into `target`."""
    options = ["--no-index", "--no-build-isolation", "--no-deps", "--disable-pip-version-check", "--quiet"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(target), str(_PACKAGE)]
    subprocess.run(command, check=True)
