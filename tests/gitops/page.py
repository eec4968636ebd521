"""docs/gitops.md, whose commands the tests run: in, a heading; out, the blocks that stand below it."""

import re

from tests.gitops.repository import ROOT
from tests.tutorial import Block, blocks

PAGE = ROOT / "docs" / "gitops.md"


def section(heading: str) -> list[Block]:
    """The code blocks between a heading of the third level and the next heading. Raises: KeyError where there is none."""
    parts = re.split(r"^#{2,3} (.+)\n", PAGE.read_text(), flags=re.MULTILINE)
    texts = dict(zip(parts[1::2], parts[2::2], strict=True))
    return blocks(texts[heading])
