"""`konverge policy simulate`: policies and a cluster flow in, where the pods that wait would go flows out.

The operator's own scheduler runs on a copy of the cluster in memory, in simulated time: nothing is written.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click
import yaml
from pydantic.alias_generators import to_camel

from konverge.cli.clusterfile import Objects, dump_cluster, load_cluster, read_cluster
from konverge.cli.policy_import import pair_of
from konverge.cli.rehearsed import told_of_rehearsal
from konverge.cli.text import console
from konverge.controllers.scheduling_policy import SchedulingPolicy
from konverge.controllers.scheduling_policy.importing import KIND, import_configuration
from konverge.controllers.scheduling_policy.profile import profile_config, rule_of
from konverge.errors import ConfigError
from konverge.model import meta
from konverge.model.resource import Object, Pod
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.registry import Registry
from konverge.scheduler.rehearsal import Part, Rehearsal, bound_to_its_node, rehearse
from konverge.testing.sim import Sim, run_sim

MAX_STEPS: Final = 1_000_000_000
"""Turns of the simulated loop: no bound in practice, a cluster may be large."""


@click.command("simulate")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--all-pending", is_flag=True, help="Try all pods that wait, whatever scheduler they name.")
@click.option(
    "--scheduler-name", "names", multiple=True, metavar="NAME", help="Try also pods that name this one. Repeatable."
)
@click.option(
    "--compare",
    metavar="NAME",
    help="Try also the pods that this scheduler has placed, as if they waited, and tell which would go elsewhere.",
)
@click.option(
    "--rename",
    "renames",
    multiple=True,
    metavar="OLD=NEW",
    help="For a KubeSchedulerConfiguration: as in `policy import`.",
)
@click.option(
    "--snapshot", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Take the cluster from this file."
)
@click.option(
    "--dump", type=click.Path(dir_okay=False, path_type=Path), help="Write the cluster to a file for --snapshot."
)
@click.option("--seed", default=0, show_default=True, help="Of the chance that decides between equally good nodes.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--kubeconfig", type=click.Path(), help="As for `konverge run`.")
@click.option("--context", help="The context of the kubeconfig.")
def simulate(
    file: Path,
    names: Sequence[str],
    renames: Sequence[str],
    snapshot: Path | None,
    dump: Path | None,
    compare: str | None,
    kubeconfig: str | None,
    context: str | None,
    *,
    all_pending: bool,
    seed: int,
    as_json: bool,
) -> None:
    """Print where the SchedulingPolicies in FILE (- for stdin) would place the pods that wait, without placing any.

    FILE may be a KubeSchedulerConfiguration, too. The pods are those with the schedulerName of one of the policies; they
    are tried in the order of the queue on the cluster of the kubeconfig, or of --snapshot. No other policies count.
    """
    registry = Registry.default()
    parts = list(_parts(file, registry, renames))
    cluster = (
        asyncio.run(read_cluster(registry, kubeconfig=kubeconfig, context=context))
        if snapshot is None
        else load_cluster(snapshot, registry)
    )
    if dump is not None:
        dump_cluster(dump, cluster)
    waiting = _to_try(cluster, parts, names, compare, all_pending=all_pending)

    async def scenario(sim: Sim) -> Rehearsal:
        return await rehearse(cluster, waiting, parts, registry, sim.clock, sim.random)

    result = run_sim(scenario, seed, max_steps=MAX_STEPS)
    if as_json:
        click.echo(json.dumps({to_camel(field): value for field, value in asdict(result).items()}, indent=2))
        return
    out = console()
    for part in told_of_rehearsal(result, compare):
        out.print(part)


def _parts(file: Path, registry: Registry, renames: Sequence[str]) -> Iterator[Part]:
    """The policies of the file. Raises: ConfigError; ManifestError; SchedulingError."""
    for raw in _policies(file, registry, renames):
        spec = SchedulingPolicy.parse(raw).spec
        if spec.suspend and spec.stop_policy == "None":
            click.echo(f"note: policy {raw['metadata']['name']} is suspended and left out", err=True)
        else:
            yield Part(raw["metadata"]["name"], profile_config(spec), rule_of(spec))


def _policies(file: Path, registry: Registry, renames: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    try:
        with click.open_file(str(file)) as stream:
            documents = [document for document in yaml.safe_load_all(stream) if document is not None]
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is no YAML: {error}") from error
    resource, found = SchedulingPolicy.resource, 0
    for document in documents:
        head = document if isinstance(document, Mapping) else {}
        if head.get("kind") == KIND:
            yield from import_configuration(document, registry, dict(map(pair_of, renames))).policies
        elif (head.get("apiVersion"), head.get("kind")) != (resource.api_version, resource.kind):
            raise ConfigError(f"{file} has a {head.get('kind')}; it may have SchedulingPolicies, or a {KIND}")
        elif not (head.get("metadata") or {}).get("name"):
            raise ConfigError(f"{file} has a {resource.kind} without metadata.name")
        else:
            yield document
        found += 1
    if not found:
        raise ConfigError(f"{file} is empty; it needs a {resource.kind}, or a {KIND}")


def _to_try(
    cluster: Objects, parts: Sequence[Part], names: Sequence[str], compare: str | None, *, all_pending: bool
) -> list[Object]:
    """The pods to place, the oldest first, each with the schedulerName of a policy. Raises: ConfigError."""
    ours = sorted({part.config.scheduler_name for part in parts})
    others = {*names, *([compare] if compare else [])} - set(ours)
    if (others or all_pending) and len(ours) != 1:
        raise ConfigError(f"pods of other schedulers can be tried with policies of one schedulerName; there are {ours}")
    found = []
    for raw in cluster[Pod]:
        pod = PodInfo(raw)
        named = pod.scheduler_name in ours or all_pending or pod.scheduler_name in names
        moves = pod.scheduler_name == compare and bool(pod.node_name) and not bound_to_its_node(raw)
        if pod.finished or pod.deleting or not (moves or (named and not pod.node_name)):
            continue
        scheduler_name = pod.scheduler_name if pod.scheduler_name in ours else ours[0]
        found.append({**raw, "spec": {**raw["spec"], "schedulerName": scheduler_name}})
    return sorted(found, key=lambda raw: (raw["metadata"].get("creationTimestamp") or "", meta.key_of(raw)))
