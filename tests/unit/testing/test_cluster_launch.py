"""Ending what was started for a cluster."""

import sys
from pathlib import Path

from konverge.testing.binaries import Binaries
from konverge.testing.components import Ports
from konverge.testing.launch import tear_down
from konverge.testing.processes import alive, spawn
from konverge.testing.state import State, this_process


def test_a_component_that_is_still_its_launcher_is_ended_too(tmp_path: Path) -> None:
    """It bears no component's name yet, so only the record knows it."""
    launcher = spawn([sys.executable, "-c", "import time; time.sleep(600)"], tmp_path / "log")
    state = State("process", this_process(), Ports(1, 2, 3), Binaries({}, bundled=False), {"kube-apiserver": launcher})
    state.save(tmp_path)
    assert alive(launcher)
    assert tear_down(tmp_path, grace=0) == ["kube-apiserver"]
    assert not alive(launcher)
    assert not tmp_path.exists()
