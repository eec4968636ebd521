"""The examples' own tests pass; tests/e2e/test_examples.py runs the examples on a real API server."""

import subprocess
import sys
from pathlib import Path

from examples.secret_copy import SecretCopy
from konverge.model.crd import crd_of

ROOT = Path(__file__).parents[3]
SECRET_COPY = ROOT / "examples" / "secret_copy.py"


def test_the_tests_beside_the_examples_pass() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "examples"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def test_a_secret_copy_is_under_forty_lines_of_code() -> None:
    code = SECRET_COPY.read_text().split('"""', 2)[2]
    assert len([line for line in code.splitlines() if line.strip()]) < 40


def test_its_crd_has_a_bound_for_whatever_its_rule_looks_at() -> None:
    """The API server refuses a rule whose worst case costs too much, and knows that case by the bounds alone."""
    [version] = crd_of(SecretCopy)["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert spec["namespaces"]["maxItems"] == 100
    assert spec["namespaces"]["items"]["maxLength"] == spec["source"]["properties"]["namespace"]["maxLength"] == 63
