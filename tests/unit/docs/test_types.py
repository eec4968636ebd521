"""The Python of the pages is typed as our own is: mypy --strict takes every page, but for what shows other frameworks."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

from tests.tutorial import blocks

ROOT = Path(__file__).parents[3]


def standing_alone(code: str, page: Path) -> str:
    """A method that is shown without its class, in a subclass of the class that the page shows before."""
    found = re.search(r"^def \w+\(self", code, re.MULTILINE)
    if found is None:
        return code
    imports, method = code[: found.start()], code[found.start() :]
    before = page.read_text().partition(code)[0]
    name = re.findall(r"^class (\w+)", before, re.MULTILINE)[-1]
    return f"{imports}class Shown{name}({name}):\n{textwrap.indent(method, '    ')}"


def test_mypy_takes_the_code_of_every_page(tmp_path: Path) -> None:
    """The blocks of a page are one module; one with a title is a file of that name."""
    for page in sorted((ROOT / "docs").rglob("*.md")):
        python = [block for block in blocks(page.read_text()) if block.language == "python"]
        parts = [(block.title, block.text) for block in python if "import kopf" not in block.text]
        directory = tmp_path / page.stem.replace("-", "_")
        for title in {title for title, _ in parts}:
            directory.mkdir(exist_ok=True)
            text = "\n\n".join(standing_alone(code, page) for name, code in parts if name == title)
            (directory / (Path(title).name or "page.py")).write_text(text)
    assert len(list(tmp_path.rglob("*.py"))) > 5
    for directory in sorted(tmp_path.iterdir()):
        command = [sys.executable, "-m", "mypy", f"--config-file={ROOT / 'pyproject.toml'}", "--strict", "."]
        cache = f"--cache-dir={tmp_path.parent / 'types'}"
        done = subprocess.run([*command, cache], cwd=directory, check=False, capture_output=True, text=True)
        assert done.returncode == 0, f"{directory.name}: {done.stdout}"
