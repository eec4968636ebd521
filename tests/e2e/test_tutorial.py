"""The tutorial, block by block, on a real API server."""

from pathlib import Path

from konverge.testing import Cluster
from tests.e2e.shims import environment
from tests.tutorial import Reader, blocks

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"


def test_every_block_does_what_it_shows(cluster: Cluster, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with Reader(work, environment(cluster, tmp_path)) as reader:
        for block in blocks(PAGE.read_text()):
            reader.follow(block)
    assert "Traceback" not in (work / "operator.log").read_text()
