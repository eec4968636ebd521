"""The workflows, as far as they can be checked without running them: rights, limits, pins, and that what they call exists."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
BY_NAME = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
PINNED = re.compile(r"\s*(?:- )?uses: (?P<action>[\w./-]+)@(?P<sha>[0-9a-f]{40}) # v\d+\.\d+\.\d+$")


def load(path: Path) -> dict[Any, Any]:
    loaded: dict[Any, Any] = yaml.safe_load(path.read_text())
    return loaded


def jobs(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = load(path)["jobs"]
    return found


def commands(path: Path) -> str:
    """All that the workflow runs."""
    return "\n".join(step.get("run", "") for job in jobs(path).values() for step in job.get("steps", []))


def test_there_are_these() -> None:
    assert [path.stem for path in WORKFLOWS] == ["ci", "release"]


@BY_NAME
def test_rights_are_to_read_but_where_a_job_says_why_not(path: Path) -> None:
    assert load(path)["permissions"] == {"contents": "read"}
    more = {name: job["permissions"] for name, job in jobs(path).items() if "permissions" in job}
    wanted = {"contents": "read", "packages": "write", "id-token": "write"}
    assert more == ({"image": wanted} if path.stem == "release" else {})


@BY_NAME
def test_no_job_runs_for_ever(path: Path) -> None:
    own = {name: job for name, job in jobs(path).items() if "uses" not in job}
    assert [name for name, job in own.items() if not 0 < job.get("timeout-minutes", 0) <= 60] == []
    assert "concurrency" in load(path)


@BY_NAME
def test_actions_are_pinned_by_commit_and_say_which_version_that_is(path: Path) -> None:
    uses = [line for line in path.read_text().splitlines() if re.search(r"\buses:", line) and "./" not in line]
    assert uses
    assert [line for line in uses if not PINNED.match(line)] == []


def test_an_action_has_the_same_pin_everywhere() -> None:
    pins: dict[str, set[str]] = {}
    for line in (line for path in WORKFLOWS for line in path.read_text().splitlines()):
        if found := PINNED.match(line):
            pins.setdefault(found["action"], set()).add(found["sha"])
    assert {action: shas for action, shas in pins.items() if len(shas) > 1} == {}


@BY_NAME
def test_no_checkout_leaves_its_token_behind(path: Path) -> None:
    steps = [step for job in jobs(path).values() for step in job.get("steps", [])]
    checkouts = [step for step in steps if step.get("uses", "").startswith("actions/checkout@")]
    assert checkouts
    assert {step["with"]["persist-credentials"] for step in checkouts} == {False}


@BY_NAME
def test_what_comes_from_outside_is_never_pasted_into_a_command(path: Path) -> None:
    """A branch or title could hold a command; the environment is safe."""
    assert "${{" not in commands(path)
    assert "pull_request_target" not in path.read_text()


@BY_NAME
def test_the_make_targets_and_scripts_that_it_calls_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = set(re.findall(r"make ([a-z0-9-]+)", commands(path)))
    assert called
    assert called <= targets
    for script in re.findall(r"\.ci/[a-z-]+", commands(path)):
        assert (ROOT / script).stat().st_mode & 0o100


def test_ci_runs_what_the_one_script_runs_and_what_it_cannot() -> None:
    called = set(re.findall(r"make ([a-z0-9-]+)", commands(ROOT / ".github/workflows/ci.yaml")))
    of_test = re.search(r"^test: ([a-z0-9 -]+?)\s*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert of_test is not None
    assert set(of_test[1].split()) <= called
    stages = set(
        re.findall(r"^stage .* make --no-print-directory ([a-z0-9-]+)$", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    )
    assert stages - {"install", "test"} <= called
    assert {"lint", "audit", "control-plane", "run", "kind-e2e", "kind-deploy"} <= called


def test_what_is_built_is_cached_by_what_it_is_built_from() -> None:
    text = (ROOT / ".github/workflows/ci.yaml").read_text()
    assert "path: ~/.cache/konverge/binaries" in text
    assert "hashFiles('localcluster/**', 'tests/gitops/argocd/**')" in text


class TestARelease:
    def test_is_for_tags_and_only_after_ci(self) -> None:
        release = load(ROOT / ".github/workflows/release.yaml")
        assert release[True] == {"push": {"tags": ["v*"]}}  # YAML 1.1 reads `on` as true
        assert release["jobs"]["ci"] == {"uses": "./.github/workflows/ci.yaml"}
        assert release["jobs"]["image"]["needs"] == "ci"

    def test_has_sbom_provenance_and_a_signature_of_the_digest(self) -> None:
        steps = jobs(ROOT / ".github/workflows/release.yaml")["image"]["steps"]
        [build] = [step for step in steps if step.get("uses", "").startswith("docker/build-push-action@")]
        assert build["with"]["sbom"] is True
        assert build["with"]["provenance"] == "mode=max"
        for argument in ("BUILD_IMAGE", "FINAL_IMAGE"):
            assert f"{argument}=${{{{ steps.bases.outputs.{argument} }}}}" in build["with"]["build-args"]
        said = commands(ROOT / ".github/workflows/release.yaml")
        assert 'cosign sign --yes "$IMAGE@$DIGEST"' in said
        assert said.index("cosign sign") < said.index("cosign verify")


def test_nothing_is_known_to_be_wrong_only_because_it_was_not_looked_at() -> None:
    audit = (ROOT / "Makefile").read_text().split("audit: $(INSTALLED)")[1]
    assert "pip-audit --strict --disable-pip --requirement requirements/runtime.lock" in audit
