"""kube-scheduler's configuration, and the profiles that both schedulers are compared under."""

from pathlib import Path

import pytest
import yaml

from konverge.scheduler import ProfileConfig, Registry
from konverge.scheduler.profile import DEFAULT_PLUGINS, check_config
from konverge.testing.components import Layout, Ports, flags
from konverge.testing.kubescheduler import PARITY_FLAGS, PARITY_PLUGINS, PARITY_VARIANTS, scheduler_configuration


def test_the_profiles_to_compare_run_the_plugins_that_ours_run_by_default() -> None:
    assert dict(PARITY_PLUGINS) == {use.name: use.weight for use in DEFAULT_PLUGINS}


@pytest.mark.parametrize("name", PARITY_VARIANTS)
def test_ours_takes_the_arguments_of_each(name: str) -> None:
    check_config(ProfileConfig(name, args=PARITY_VARIANTS[name]), Registry.default())


@pytest.mark.parametrize(("parity", "variants"), [(False, set()), (True, set(PARITY_VARIANTS))])
def test_more_profiles_are_there_only_where_they_are_asked_for(parity: bool, variants: set[str]) -> None:
    document = yaml.safe_load(scheduler_configuration(Path("/c/kubeconfig"), parity=parity))
    profiles = {profile["schedulerName"]: profile.get("pluginConfig") for profile in document["profiles"]}
    assert profiles.keys() == {"default-scheduler", "parity", *variants}
    assert document["clientConnection"]["kubeconfig"] == "/c/kubeconfig"
    for name in variants:
        assert {each["name"]: each["args"] for each in profiles[name]} == PARITY_VARIANTS[name]


def test_further_flags_are_given_where_the_cluster_has_some(tmp_path: Path) -> None:
    layout = Layout(tmp_path, Ports(1, 2, 3))
    usual = flags("kube-scheduler", layout)
    layout.scheduler_flags.write_text("\n".join(PARITY_FLAGS))
    assert flags("kube-scheduler", layout) == [*usual, *PARITY_FLAGS]
