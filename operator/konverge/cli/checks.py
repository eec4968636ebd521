"""What `konverge doctor` looks at: a client and what reconcilers declare flow in, findings with what to do flow out.

Each check reads only, and each stands alone: one that may not be made is a finding itself, and the others go on.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from konverge.errors import ApiError, Forbidden, NotFound
from konverge.kube.client import Client
from konverge.model import meta
from konverge.model.conditions import READY, STALLED, find, is_true
from konverge.model.crd import crd_of
from konverge.model.definition import ResourceClass, storage_class
from konverge.model.rbac import Access, Declaration, rule_text
from konverge.model.resource import CustomResourceDefinition, Lease, Object, ResourceType, Service
from konverge.ports import Scope
from konverge.runtime.compare import holds

OLDEST: Final = (1, 30)
"""The oldest Kubernetes that the tests know; older ones may lack what CRDs use (selectable fields, CEL functions)."""

STUCK_AFTER: Final = timedelta(minutes=5)
AT_ONCE: Final = 8
SHOWN: Final = 5
LOOKED_AT: Final = 500
"""Objects of a kind."""
EndpointSlice: Final = ResourceType("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
Mutating: Final = ResourceType(
    "admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", False
)
Validating: Final = ResourceType(
    "admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", False
)


@dataclass(frozen=True, slots=True)
class Finding:
    """What one look found. `advice` says what to do about it, where there is something to do."""

    level: Literal["ok", "warning", "problem"]
    area: str
    text: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Patient:
    """What is examined: the operator's kinds and declarations, and where and as whom it runs."""

    kinds: Sequence[ResourceClass]
    declarations: Sequence[Declaration]
    lease: meta.Key
    account: str = ""
    """`namespace/name` of its ServiceAccount; empty: whoever asks."""
    elects: bool | None = None
    """Whether it runs with --leader-elect; None where that is not known."""


async def examine(client: Client, patient: Patient) -> AsyncIterator[Finding]:
    """All checks, one after the other."""
    for check in (_version, _definitions, _permissions, _webhooks, _lease, _objects):
        area = check.__name__.strip("_")
        try:
            for finding in await check(client, patient):
                yield finding
        except Forbidden as error:
            yield Finding("warning", area, f"could not be looked at: {error.message}", "ask as somebody who may")
        except ApiError as error:
            yield Finding("problem", area, f"the API server answers {error}")


async def _version(client: Client, _: Patient) -> list[Finding]:
    version = await client.read("/version")
    digits = ["".join(filter(str.isdigit, str(version.get(part, "")))) for part in ("major", "minor")]
    text = f"Kubernetes {version.get('gitVersion', 'of an unknown version')} at {client.credentials().server}"
    if all(digits) and (int(digits[0]), int(digits[1])) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        return [Finding("warning", "version", text, f"Konverge is tested from {wanted} on; upgrade the cluster")]
    return [Finding("ok", "version", text)]


async def _definitions(client: Client, patient: Patient) -> list[Finding]:
    return [await _definition(client, kind) for kind in patient.kinds]


async def _definition(client: Client, kind: ResourceClass) -> Finding:
    name = kind.resource.name
    try:
        live = await client.get(CustomResourceDefinition, name)
    except NotFound:
        return Finding("problem", "CRD", f"{name} is not installed", "kubectl apply --server-side -f crds/")
    status: Mapping[str, Any] = live.get("status") or {}
    conditions: Sequence[Mapping[str, Any]] = status.get("conditions") or ()
    if meta.is_deleting(live):
        return Finding("problem", "CRD", f"{name} is being deleted", "wait for it to go, and apply it again")
    for wanted in ("NamesAccepted", "Established"):
        if not is_true(conditions, wanted):
            said = (find(conditions, wanted) or {}).get("message", "no word of it yet")
            return Finding("problem", "CRD", f"{name} is not {wanted}: {said}", "remove what has the same names")
    # Who converts is the installation's business, and is looked at as a webhook.
    desired = {field: value for field, value in crd_of(kind)["spec"].items() if field != "conversion"}
    if not holds(live.get("spec"), desired):
        return Finding("warning", "CRD", f"{name} is not what the models say", "kubectl apply --server-side -f crds/")
    stored, storage = status.get("storedVersions") or [], storage_class(kind).resource.version
    if old := [version for version in stored if version != storage]:
        what = f"objects of {name} may still be stored as {', '.join(old)}"
        return Finding("warning", "CRD", what, "konverge crds --migrate")
    return Finding("ok", "CRD", f"{name} is installed, and as the models say")


async def _permissions(client: Client, patient: Patient) -> list[Finding]:
    wanted: dict[tuple[str, str, str], Access] = {}
    for declaration in patient.declarations:
        for access in declaration.accesses():
            for verb in access.verbs:
                wanted[(*access.target, verb)] = access
    limit = asyncio.Semaphore(AT_ONCE)

    async def allowed(target: tuple[str, str, str]) -> bool:
        async with limit:
            return await _may(client, patient.account, *target)

    answers = await asyncio.gather(*map(allowed, wanted))
    who = f"the ServiceAccount {patient.account}" if patient.account else "whoever asks here"
    missing: dict[tuple[str, str], list[str]] = {}
    for (group, resource, verb), yes in zip(wanted, answers, strict=True):
        if not yes:
            missing.setdefault((group, resource), []).append(verb)
    if not missing:
        return [Finding("ok", "permissions", f"{who} has all {len(wanted)} that the reconcilers need")]
    return [
        Finding(
            "problem",
            "permissions",
            f"{who} may not {', '.join(verbs)} {resource}{f'.{group}' if group else ''}",
            f"add to its role:\n{rule_text(group, resource, verbs)}",
        )
        for (group, resource), verbs in missing.items()
    ]


async def _may(client: Client, account: str, group: str, resource: str, verb: str) -> bool:
    plural, _, subresource = resource.partition("/")
    asked = {"group": group, "resource": plural, "subresource": subresource, "verb": verb}
    spec: dict[str, Any] = {"resourceAttributes": asked}
    kind = "SelfSubjectAccessReview"
    if account:
        namespace, _, name = account.partition("/")
        kind = "SubjectAccessReview"
        spec["user"] = f"system:serviceaccount:{namespace}:{name}"
        spec["groups"] = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    answer = await client.review(f"/apis/authorization.k8s.io/v1/{kind.lower()}s", body)
    return bool(answer["status"]["allowed"])


async def _webhooks(client: Client, patient: Patient) -> list[Finding]:
    groups = {kind.resource.group for kind in patient.kinds}
    findings: list[Finding] = []
    for resource in (Mutating, Validating):
        for configuration in (await client.list(resource, Scope())).items:
            for webhook in configuration.get("webhooks") or ():
                rules = webhook.get("rules") or ()
                if any(groups & set(rule.get("apiGroups") or ()) for rule in rules):
                    findings.append(await _webhook(client, str(webhook["name"]), webhook))
    findings += [await _conversion(client, kind) for kind in patient.kinds if kind.spokes]
    return findings or [Finding("ok", "webhooks", "none are configured for these kinds")]


async def _webhook(client: Client, name: str, webhook: Mapping[str, Any]) -> Finding:
    return await _hooked(client, name, webhook.get("clientConfig") or {}, webhook.get("failurePolicy", "Fail"))


async def _conversion(client: Client, kind: ResourceClass) -> Finding:
    name = f"conversion of {kind.resource.name}"
    try:
        live = await client.get(CustomResourceDefinition, kind.resource.name)
    except NotFound:
        return Finding(
            "problem", "webhooks", f"{name}: its CRD is not installed", "kubectl apply --server-side -f crds/"
        )
    webhook = ((live["spec"].get("conversion") or {}).get("webhook") or {}).get("clientConfig") or {}
    return await _hooked(client, name, webhook, "Fail")


async def _hooked(client: Client, name: str, called: Mapping[str, Any], policy: str) -> Finding:
    level: Literal["warning", "problem"] = "problem" if policy == "Fail" else "warning"
    if not called.get("caBundle"):
        advice = "let cert-manager inject it (config/certmanager), or put your CA there"
        return Finding(level, "webhooks", f"{name} has no caBundle: the API server cannot trust it", advice)
    service = called.get("service")
    if not service:
        return Finding("ok", "webhooks", f"{name} is called at {called.get('url', 'nowhere')}")
    where = f"{service['namespace']}/{service['name']}"
    try:
        await client.get(Service, service["name"], service["namespace"])
    except NotFound:
        return Finding(
            level, "webhooks", f"{name} goes to the Service {where}, which is not there", "apply config/webhook"
        )
    scope = Scope(service["namespace"], label_selector=f"kubernetes.io/service-name={service['name']}")
    slices = (await client.list(EndpointSlice, scope)).items
    if not any(_ready(endpoint) for each in slices for endpoint in each.get("endpoints") or ()):
        text = f"{name} goes to the Service {where}, behind which no pod is ready"
        return Finding(level, "webhooks", text, f"failurePolicy {policy} holds until the operator is up")
    return Finding("ok", "webhooks", f"{name} goes to {where}")


def _ready(endpoint: Mapping[str, Any]) -> bool:
    return (endpoint.get("conditions") or {}).get("ready") is not False


async def _lease(client: Client, patient: Patient) -> list[Finding]:
    if patient.elects is False:
        return [Finding("ok", "lease", "not looked for: the operator runs without --leader-elect")]
    try:
        lease = await client.get(Lease, patient.lease.name, patient.lease.namespace)
    except NotFound:
        if patient.elects is None:
            text = f"no lease {patient.lease}: fine for one replica without --leader-elect"
            return [Finding("ok", "lease", text)]
        text = f"nobody has taken {patient.lease}: no operator runs with --leader-elect, or elsewhere"
        return [Finding("warning", "lease", text, "say where with --lease-namespace, --lease-name")]
    spec: Mapping[str, Any] = lease.get("spec") or {}
    holder, renewed = spec.get("holderIdentity"), spec.get("renewTime")
    if not holder:
        return [
            Finding("warning", "lease", f"{patient.lease} is free: its last leader has stopped", "start the operator")
        ]
    age = (datetime.now(UTC) - datetime.fromisoformat(renewed)).total_seconds() if renewed else 0.0
    if age > float(spec.get("leaseDurationSeconds") or 15):
        text = f"{holder} renewed {patient.lease} {age:.0f} s ago, which is too long: it is gone, or cut off"
        return [Finding("problem", "lease", text, "look at the operator's pods and logs")]
    return [Finding("ok", "lease", f"{holder} leads, by {patient.lease}")]


async def _objects(client: Client, patient: Patient) -> list[Finding]:
    findings: list[Finding] = []
    for kind in patient.kinds:
        try:
            page = await client.list(kind.resource, limit=LOOKED_AT)
        except NotFound:
            continue  # its CRD is missing: said before
        wrong = [text for obj in page.items if (text := _trouble(obj))]
        failing = [text for obj in page.items if not _trouble(obj) and (text := _failing(kind, obj))]
        name = kind.resource.name
        if not wrong and not failing:
            first = "the first " if page.continue_token else ""
            findings.append(Finding("ok", "objects", f"{first}{len(page.items)} {name}, none of them stuck"))
            continue
        told = _some(wrong) + ([f"{len(failing)} not Ready: {', '.join(_some(failing))}"] if failing else [])
        advice = f"konverge explain {kind.resource.kind.lower()}/NAME"
        findings.append(Finding("warning", "objects", f"{name}: {'; '.join(told)}", advice))
    return findings


def _some(texts: Sequence[str]) -> list[str]:
    """The first few, and how many there are besides."""
    return [*texts[:SHOWN], *([f"and {len(texts) - SHOWN} more"] if len(texts) > SHOWN else [])]


def _failing(kind: ResourceClass, obj: Object) -> str:
    """Which object it is, and its reason, where it is not Ready and being tried again; empty where it is not so."""
    ready = find((obj.get("status") or {}).get("conditions") or (), READY)
    if ready is None or ready.get("status") != "False":
        return ""
    return f"{kind.resource.kind.lower()}/{meta.key_of(obj)} ({ready.get('reason', 'no reason given')})"


def _trouble(obj: Object) -> str:
    """Why a person should look at the object; empty for one that is well, or still at work."""
    status: Mapping[str, Any] = obj.get("status") or {}
    conditions: Iterable[Mapping[str, Any]] = status.get("conditions") or ()
    name, now = meta.key_of(obj), datetime.now(UTC)
    if meta.is_deleting(obj) and now - datetime.fromisoformat(obj["metadata"]["deletionTimestamp"]) > STUCK_AFTER:
        held = ", ".join(obj["metadata"].get("finalizers") or ())
        return f"{name} has been going for long; held by {held or 'nothing'}"
    if (stalled := find(conditions, STALLED)) is not None and stalled.get("status") == "True":
        return f"{name} is stalled: {stalled.get('message') or stalled.get('reason')}"
    made = datetime.fromisoformat(obj["metadata"]["creationTimestamp"])
    if not status and now - made > STUCK_AFTER:
        return f"{name} has no status: does an operator work on it?"
    return ""
