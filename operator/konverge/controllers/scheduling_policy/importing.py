"""From kube-scheduler's configuration to policies: a KubeSchedulerConfiguration flows in, a SchedulingPolicy a profile out.

What would place pods otherwise than kube-scheduler does is a problem, and all problems are told at once; what is the
process's own affair (leases, connections, profiling) is a note. Pure.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from konverge.controllers.scheduling_policy.models import SchedulingPolicy
from konverge.controllers.scheduling_policy.plugins import DEFAULT_SCHEDULER, Plugins
from konverge.controllers.scheduling_policy.profile import profile_config
from konverge.errors import ConfigError, ManifestError, SchedulingError, UnknownPlugin
from konverge.scheduler.profile import check_config
from konverge.scheduler.registry import Registry

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"

_NOTES: Final[Mapping[str, str]] = {
    "clientConnection": "the operator's own connection is used: konverge run --kubeconfig",
    "leaderElection": "the operator's own lease is used: konverge run --leader-elect",
    "delayCacheUntilActive": "the operator's standby keeps its caches warm",
    "enableProfiling": "the operator has /debug: konverge run --debug-address",
    "enableContentionProfiling": "there is no such profile of one event loop",
    "parallelism": "nodes are judged in columns, not by threads",
    "podInitialBackoffSeconds": "the first backoff is 1 s",
    "podMaxBackoffSeconds": "the longest backoff is 10 s",
}
"""Fields that do not decide where pods go, with what holds instead."""

_WEIGHTED: Final = frozenset({"score", "multiPoint"})
_POINTS: Final = frozenset(filter(None, (field.alias for field in Plugins.model_fields.values())))
_PROFILE: Final = frozenset({"schedulerName", "plugins", "pluginConfig", "percentageOfNodesToScore"})
_TOP: Final = frozenset({"apiVersion", "kind", "profiles", "percentageOfNodesToScore", "extenders", *_NOTES})


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of a configuration."""

    policies: Sequence[dict[str, Any]]
    """SchedulingPolicies, in the order of the profiles."""
    notes: Sequence[str]
    """What was left out, with the reason."""


def import_configuration(raw: Any, registry: Registry, renames: Mapping[str, str]) -> Imported:
    """Turn a configuration into policies; `renames` gives profiles other schedulerNames.

    Raises: ConfigError that lists all that cannot be carried over.
    """
    if not isinstance(raw, Mapping) or (raw.get("apiVersion"), raw.get("kind")) != (API_VERSION, KIND):
        raise ConfigError(
            f"this is no {KIND} of {API_VERSION}; rewrite an older one with `kube-scheduler --config OLD --write-config-to NEW`"
        )
    try:
        return _import(raw, registry, renames)
    except (AttributeError, TypeError) as error:
        raise ConfigError(f"this {KIND} does not have the shape of one: {error}") from error


def _import(raw: Mapping[str, Any], registry: Registry, renames: Mapping[str, str]) -> Imported:
    notes = [f"{field} is left out: {_NOTES[field]}" for field in raw if field in _NOTES]
    problems = [f"{field} is no field of a {KIND}" for field in sorted(raw.keys() - _TOP)]
    if raw.get("extenders"):
        problems.append("extenders are not called; write a plugin, or leave pods that need them to kube-scheduler")
    policies: list[dict[str, Any]] = []
    for profile in raw.get("profiles") or [{}]:
        conversion = _Profile(profile, raw.get("percentageOfNodesToScore"), registry, renames)
        policies.append(conversion.policy())
        notes += conversion.notes
        problems += conversion.problems
    names = [policy["spec"]["profile"]["schedulerName"] for policy in policies]
    problems += [f"two profiles have the schedulerName {name}" for name in sorted({*names}) if names.count(name) > 1]
    if problems:
        raise ConfigError("\n  - ".join(["this configuration cannot be carried over:", *problems]))
    return Imported(policies, notes)


class _Profile:
    """One profile on its way to a policy, with what is to be said of it."""

    def __init__(
        self, raw: Mapping[str, Any], percentage: int | None, registry: Registry, renames: Mapping[str, str]
    ) -> None:
        self._raw, self._registry = raw, registry
        given = raw.get("schedulerName") or DEFAULT_SCHEDULER
        self._name = renames.get(given, given)
        own = raw.get("percentageOfNodesToScore")
        self._percentage = own if own is not None else percentage or 0
        self.notes: list[str] = []
        self.problems: list[str] = []

    def policy(self) -> dict[str, Any]:
        """The policy, and `problems` where it cannot be one."""
        self._say_all(f"{field} is no field of a profile" for field in sorted(self._raw.keys() - _PROFILE))
        if self._name == DEFAULT_SCHEDULER:
            self._say(f"that name is kube-scheduler's own; give another with --rename {DEFAULT_SCHEDULER}=NAME")
        profile: dict[str, Any] = {"schedulerName": self._name, "percentageOfNodesToScore": self._percentage}
        if plugins := dict(self._plugins()):
            profile["plugins"] = plugins
        if configs := list(self._configs()):
            profile["pluginConfig"] = configs
        resource = SchedulingPolicy.resource
        manifest = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": self._name},
            "spec": {"profile": profile},
        }
        if not self.problems:
            self._check(manifest)
        return manifest

    def _plugins(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for point, chosen in (self._raw.get("plugins") or {}).items():
            if point not in _POINTS:
                self._say(f"plugins.{point} is no extension point; there are {', '.join(sorted(_POINTS))}")
                continue
            enabled = [self._enabled(point, plugin) for plugin in chosen.get("enabled") or ()]
            disabled = [{"name": name} for name in self._disabled(point, chosen.get("disabled") or ())]
            found = {"enabled": enabled, "disabled": disabled}
            if given := {key: value for key, value in found.items() if value}:
                yield point, given

    def _enabled(self, point: str, plugin: Mapping[str, Any]) -> dict[str, Any]:
        """The plugin with its weight. kube-scheduler takes a weight that is not given for 1, also of a default plugin."""
        name = str(plugin.get("name", ""))
        self._known(f"plugins.{point}.enabled", name)
        if point not in _WEIGHTED:
            return {"name": name}
        weight = plugin.get("weight") or 1
        if weight > 100:
            self._say(f"plugins.{point}: the weight of {name} is {weight}, it can be 100; scale all weights down")
        return {"name": name, "weight": weight}

    def _disabled(self, point: str, plugins: Iterable[Mapping[str, Any]]) -> Iterator[str]:
        for name in (str(plugin.get("name", "")) for plugin in plugins):
            if name == "*" or name in self._registry.names:
                yield name
            else:
                self.notes.append(f"profile {self._name}: plugins.{point}.disabled: {name} does not run anyway")

    def _configs(self) -> Iterator[dict[str, Any]]:
        for config in self._raw.get("pluginConfig") or ():
            name = str(config.get("name", ""))
            args = {
                key: value for key, value in (config.get("args") or {}).items() if key not in {"apiVersion", "kind"}
            }
            if not self._known("pluginConfig", name):
                continue
            try:
                self._registry.check_args(name, args)
            except SchedulingError as error:
                self._say(f"pluginConfig: {error}")
            if args:
                yield {"name": name, "args": args}

    def _known(self, where: str, name: str) -> bool:
        try:
            self._registry.get(name)
        except UnknownPlugin as error:
            self._say(f"{where}: {error}")
            return False
        return True

    def _check(self, manifest: dict[str, Any]) -> None:
        """Whatever else the policy itself would be refused for."""
        try:
            check_config(profile_config(SchedulingPolicy.parse(manifest).spec), self._registry)
        except ManifestError as error:
            self._say_all(error.problems)
        except SchedulingError as error:
            self._say(str(error))

    def _say(self, problem: str) -> None:
        self.problems.append(f"profile {self._name}: {problem}")

    def _say_all(self, problems: Iterable[str]) -> None:
        for problem in problems:
            self._say(problem)
