"""The image, as far as its recipe tells: what hadolint asks, and what a cluster with strict rules asks."""

import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

ROOT = Path(__file__).parents[3]
BASES = (ROOT / ".ci" / "base-images").read_text()


class Instruction(NamedTuple):
    name: str
    text: str


def instructions() -> list[Instruction]:
    """The Dockerfile without comments, each instruction on one line."""
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if line and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()
    return [Instruction(*line.split(" ", 1)) for line in joined]


def stages() -> list[list[Instruction]]:
    """The instructions of each stage, its FROM first."""
    found: list[list[Instruction]] = []
    for instruction in instructions():
        if instruction.name == "FROM":
            found.append([])
        if found:
            found[-1].append(instruction)
    return found


def of(stage: list[Instruction], name: str) -> list[str]:
    return [instruction.text for instruction in stage if instruction.name == name]


def test_what_builds_is_left_behind() -> None:
    build, final = stages()
    assert of(build, "FROM") == ["${BUILD_IMAGE} AS build"]
    assert of(final, "COPY") == ["--from=build /opt/konverge /opt/konverge"]


def test_both_bases_are_given_by_digest_and_have_no_default() -> None:
    before = instructions()[: next(i for i, each in enumerate(instructions()) if each.name == "FROM")]
    assert before == [Instruction("ARG", "BUILD_IMAGE"), Instruction("ARG", "FINAL_IMAGE")]
    assert [text for stage in stages() for text in of(stage, "FROM")] == ["${BUILD_IMAGE} AS build", "${FINAL_IMAGE}"]
    assert "^sha256:[0-9a-f]{64}$" in BASES
    assert "cosign verify" in BASES


def test_the_final_stage_needs_no_shell() -> None:
    """A base without one cannot RUN anything, and cannot start the shell forms of these."""
    final = stages()[-1]
    assert re.search(r"^FINAL=gcr\.io/distroless/python3-debian13:nonroot$", BASES, re.MULTILINE)
    assert of(final, "RUN") == []
    for name in ("ENTRYPOINT", "CMD"):
        [form] = of(final, name)
        assert isinstance(json.loads(form), list)


def test_both_stages_have_the_python_of_one_debian() -> None:
    """What is compiled for one minor version is not found by another."""
    assert re.search(r"^BUILD=python:3\.13-slim-trixie$", BASES, re.MULTILINE)
    assert "trixie" in BASES
    assert "debian13" in BASES


def test_it_runs_as_the_user_that_the_deployment_names_and_not_as_root() -> None:
    deployment = yaml.safe_load((ROOT / "config/manager/deployment.yaml").read_text())
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    [user] = of(stages()[-1], "USER")
    assert user.split(":")[0] == str(container["securityContext"]["runAsUser"]) != "0"


def test_nothing_is_written_to_its_file_system() -> None:
    [environment] = of(stages()[-1], "ENV")
    assert "PYTHONDONTWRITEBYTECODE=1" in environment
    assert of(stages()[-1], "VOLUME") == []
    image_check = (ROOT / "Makefile").read_text().split("image-check: image")[1]
    assert "docker run --rm --read-only --cap-drop ALL --network none $(IMAGE) --version" in image_check


@pytest.mark.parametrize("lock", ["build", "runtime"])
def test_what_is_installed_is_locked_with_hashes(lock: str) -> None:
    installs = [part for run in of(stages()[0], "RUN") for part in run.split("&&") if "pip install" in part]
    assert all("--require-hashes" in part or "--no-index" in part for part in installs)
    assert [part for part in installs if f"requirements/{lock}.lock" in part]
    pins = re.findall(r"^([a-z0-9-]+)==\S+(.*)$", (ROOT / f"requirements/{lock}.lock").read_text(), re.MULTILINE)
    assert pins
    assert [name for name, rest in pins if not rest.rstrip().endswith("\\")] == []


def test_no_secret_and_no_remote_file_goes_in() -> None:
    for stage in stages():
        assert of(stage, "ADD") == []
        assert not re.search(r"(?i)token|password|secret", " ".join([*of(stage, "ARG"), *of(stage, "ENV")]))


def test_each_copied_path_exists_and_reaches_the_build() -> None:
    """.dockerignore leaves out everything that is not named in it."""
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {path for text in of(stages()[0], "COPY") for path in text.split()[:-1]}
    assert copied == allowed
    assert [path for path in copied if not (ROOT / path).exists()] == []


def test_the_command_that_it_starts_with_is_one() -> None:
    from konverge.cli.run import run  # noqa: PLC0415 - only this test needs the operator

    [command] = of(stages()[-1], "CMD")
    name, *flags = json.loads(command)
    assert name == "run"
    with run.make_context("run", flags) as context:
        assert context.params["metrics_address"] == "127.0.0.1:8080"
