"""`konverge policy import`: what becomes of a KubeSchedulerConfiguration."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from konverge.cli import main
from konverge.controllers.scheduling_policy import SchedulingPolicy
from konverge.controllers.scheduling_policy.importing import Imported, import_configuration
from konverge.controllers.scheduling_policy.profile import profile_config
from konverge.errors import ConfigError
from konverge.scheduler import PluginSet, PluginUse, Point, ProfileConfig, Registry


def configuration(*profiles: dict[str, Any], **top: Any) -> dict[str, Any]:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return {
        **head,
        "profiles": [{"schedulerName": f"p{number}", **each} for number, each in enumerate(profiles)],
        **top,
    }


def imported(*profiles: dict[str, Any], **top: Any) -> Imported:
    return import_configuration(configuration(*profiles, **top), Registry.default(), {})


def profile(*profiles: dict[str, Any], **top: Any) -> ProfileConfig:
    """What the scheduler is told of the first policy."""
    return profile_config(SchedulingPolicy.parse(imported(*profiles, **top).policies[0]).spec)


def refusal(raw: Any, **renames: str) -> str:
    with pytest.raises(ConfigError) as caught:
        import_configuration(raw, Registry.default(), renames)
    return str(caught.value)


def test_each_profile_becomes_a_policy_of_its_name() -> None:
    found = imported({}, {"schedulerName": "batch"})

    assert [policy["metadata"]["name"] for policy in found.policies] == ["p0", "batch"]
    assert [policy["kind"] for policy in found.policies] == ["SchedulingPolicy"] * 2
    assert found.notes == []


def test_plugins_weights_and_arguments_are_carried_over() -> None:
    ratio = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 2}]}
    args = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "NodeResourcesFitArgs", "scoringStrategy": ratio}
    plugins = {
        "score": {"enabled": [{"name": "ImageLocality", "weight": 7}], "disabled": [{"name": "PodTopologySpread"}]},
        "filter": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeName", "weight": 5}]},
    }

    assert profile({"plugins": plugins, "pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}) == ProfileConfig(
        "p0",
        plugins={
            Point.SCORE: PluginSet((PluginUse("ImageLocality", 7),), frozenset({"PodTopologySpread"})),
            Point.FILTER: PluginSet((PluginUse("NodeName"),), frozenset({"*"})),
        },
        args={"NodeResourcesFit": {"scoringStrategy": ratio}},
        percentage_of_nodes_to_score=0,
    )


def test_a_weight_that_is_not_given_is_one_as_for_kube_scheduler() -> None:
    """Ours without a weight would keep that of the default plugin, 3."""
    found = profile({"plugins": {"multiPoint": {"enabled": [{"name": "TaintToleration"}]}}})

    assert found.plugins == {Point.MULTI_POINT: PluginSet((PluginUse("TaintToleration", 1),))}


@pytest.mark.parametrize(
    ("of_the_profile", "of_all", "expected"),
    [
        ({}, {}, 0),
        ({}, {"percentageOfNodesToScore": 30}, 30),
        ({"percentageOfNodesToScore": 0}, {"percentageOfNodesToScore": 30}, 0),
    ],
)
def test_the_percentage_is_the_profiles_then_that_of_all_then_adaptive(
    of_the_profile: dict[str, Any], of_all: dict[str, Any], expected: int
) -> None:
    assert profile(of_the_profile, **of_all).percentage_of_nodes_to_score == expected


def test_what_is_the_processs_own_affair_is_noted() -> None:
    found = imported({}, leaderElection={"leaderElect": True}, podMaxBackoffSeconds=20)

    assert found.notes == [
        "leaderElection is left out: the operator's own lease is used: konverge run --leader-elect",
        "podMaxBackoffSeconds is left out: the longest backoff is 10 s",
    ]


def test_disabling_what_does_not_run_is_noted() -> None:
    found = imported({"plugins": {"filter": {"disabled": [{"name": "DynamicResources"}]}}})

    assert found.notes == ["profile p0: plugins.filter.disabled: DynamicResources does not run anyway"]
    assert "plugins" not in found.policies[0]["spec"]["profile"]


def test_all_that_cannot_be_carried_over_is_told_at_once() -> None:
    said = refusal(
        configuration(
            {
                "plugins": {
                    "score": {"enabled": [{"name": "Nope"}, {"name": "ImageLocality", "weight": 1000}]},
                    "colour": {},
                },
                "pluginConfig": [
                    {"name": "DynamicResources", "args": {"filterTimeout": "10s"}},
                    {"name": "NodeResourcesFit", "args": {"strategy": "x"}},
                ],
                "nodes": 1,
            },
            extenders=[{"urlPrefix": "http://extender.example.com"}],
            speed=9,
        )
    )

    for problem in (
        "speed is no field of a KubeSchedulerConfiguration",
        "extenders are not called; write a plugin",
        "profile p0: nodes is no field of a profile",
        "profile p0: plugins.score.enabled: unknown plugin 'Nope'; known: ",
        "profile p0: plugins.score: the weight of ImageLocality is 1000, it can be 100",
        "profile p0: plugins.colour is no extension point; there are bind, filter,",
        "profile p0: pluginConfig: unknown plugin 'DynamicResources'",
        "profile p0: pluginConfig: plugin NodeResourcesFit: strategy: Extra inputs are not permitted",
    ):
        assert f"\n  - {problem}" in said


def test_what_the_policy_itself_would_be_refused_for_is_told_here() -> None:
    twice = {"plugins": {"score": {"enabled": [{"name": "NodeName"}]}}}

    assert "profile p0: plugin NodeName does not run at score" in refusal(configuration(twice))
    assert "profile Upper: spec.profile.schedulerName" in refusal(configuration({"schedulerName": "Upper"}))
    assert "two profiles have the schedulerName x" in refusal(configuration(*[{"schedulerName": "x"}] * 2))


def test_the_default_schedulers_profile_needs_another_name() -> None:
    raw = configuration({"schedulerName": "default-scheduler"})
    bare = {**raw, "profiles": None}

    assert "give another with --rename default-scheduler=NAME" in refusal(raw)
    for given in (raw, bare):
        (policy,) = import_configuration(given, Registry.default(), {"default-scheduler": "batch"}).policies
        assert policy["spec"]["profile"]["schedulerName"] == "batch"


@pytest.mark.parametrize(
    "raw", [None, [], {"kind": "Pod"}, {**configuration({}), "apiVersion": "kubescheduler.config.k8s.io/v1beta3"}]
)
def test_what_is_no_such_configuration_is_refused(raw: Any) -> None:
    assert "this is no KubeSchedulerConfiguration of kubescheduler.config.k8s.io/v1" in refusal(raw)


@pytest.mark.parametrize("raw", [configuration({"plugins": ["a"]}), configuration({}, profiles=["p"])])
def test_what_has_another_shape_is_refused(raw: Any) -> None:
    assert "does not have the shape of one" in refusal(raw)


def test_the_command_prints_policies_and_keeps_notes_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "config.yaml", tmp_path / "policies.yaml"
    file.write_text(yaml.safe_dump(configuration({}, {"schedulerName": "default-scheduler"}, parallelism=16)))
    arguments = ["policy", "import", str(file), "--rename", "default-scheduler=batch"]
    main(arguments, standalone_mode=False)
    printed = capsys.readouterr()
    main([*arguments, "--output", str(out)], standalone_mode=False)

    assert [policy["metadata"]["name"] for policy in yaml.safe_load_all(printed.out)] == ["p0", "batch"]
    assert printed.err == "note: parallelism is left out: nodes are judged in columns, not by threads\n"
    assert out.read_text() == printed.out


@pytest.mark.parametrize(
    ("content", "arguments", "problem"),
    [("{", (), "is no YAML"), ("{}", ("--rename", "a"), "--rename 'a': write OLD=NEW")],
)
def test_the_command_says_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, arguments: tuple[str, ...], problem: str
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(content)
    with pytest.raises(SystemExit):
        main(["policy", "import", str(file), *arguments])

    assert problem in capsys.readouterr().err
