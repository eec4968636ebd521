"""The benchmarks run, at a size that says nothing about speed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

BENCH = Path(__file__).parents[2] / "bench"


def run(program: str, report: Path, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, str(BENCH / program), *arguments, "--json", str(report)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    numbers: dict[str, Any] = json.loads(report.read_text())
    return numbers


def test_every_python_peer_makes_all_echoes_ready_and_keeps_up_with_edits(tmp_path: Path) -> None:
    arguments = ["--count", "20", "--rounds", "1", "--edit-seconds", "0.5", "--idle-seconds", "0.5"]
    report = run("converge.py", tmp_path / "report.json", *arguments, "--peers", "konverge", "kopf")
    konverge, kopf = report["medians"]["konverge"], report["medians"]["kopf"]
    assert 2 <= konverge["requests_per_resource"] < 2.5  # an apply and a status each, and the lists at the start
    assert 2 <= konverge["edit_requests"] < 2.5
    assert kopf["requests_per_resource"] > konverge["requests_per_resource"]
    assert min(konverge["edit_p50_ms"], konverge["cached_mb"], kopf["edit_p50_ms"], kopf["cached_mb"]) > 0


def test_the_queue_and_the_store_are_measured_for_each_number_of_keys(tmp_path: Path) -> None:
    report = run("inprocess.py", tmp_path / "report.json", "--keys", "10", "100")
    assert {name: list(rates) for name, rates in report.items()} == {
        "work queue": ["10", "100"],
        "store": ["10", "100"],
    }
