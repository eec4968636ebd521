"""Children declared instead of written: a Site is a page, the pods that serve it, an address, and with several pods a
disruption budget. Run it with `konverge run examples/dependents.py`."""

from typing import Any

from pydantic import Field

import konverge as kv
from konverge import Context, CustomResource, Dependent, DependentReconciler, Spec, Status


class SiteSpec(Spec):
    html: str = Field(description="The page.")
    replicas: int = Field(default=1, ge=0, le=100, description="How many pods serve it.")


class SiteStatus(Status):
    available: int = Field(default=0, description="How many pods serve it now.")


class Site(CustomResource[SiteSpec, SiteStatus], group="demo.dev", version="v1"):
    """A page on the web."""


class Page(Dependent[Site], kind=kv.ConfigMap):
    def desired(self, site: Site, ctx: Context, /) -> dict[str, Any]:
        return {"data": {"index.html": site.spec.html}}


class Server(Dependent[Site], kind=kv.Deployment, after=[Page]):
    def desired(self, site: Site, ctx: Context, /) -> dict[str, Any]:
        mount = {"name": "page", "mountPath": "/usr/share/nginx/html"}
        container = {"name": "web", "image": "docker.io/library/nginx:1.27", "volumeMounts": [mount]}
        pod = {"containers": [container], "volumes": [{"name": "page", "configMap": {"name": site.name}}]}
        template = {"metadata": {"labels": {"site": site.name}}, "spec": pod}
        return {"spec": {"replicas": site.spec.replicas, "selector": selector(site), "template": template}}


class Address(Dependent[Site], kind=kv.Service, after=[Server]):
    def desired(self, site: Site, ctx: Context, /) -> dict[str, Any]:
        return {"spec": {"selector": {"site": site.name}, "ports": [{"port": 80}]}}


class Budget(Dependent[Site], kind=kv.PodDisruptionBudget, after=[Server]):
    def desired(self, site: Site, ctx: Context, /) -> dict[str, Any] | None:
        return {"spec": {"maxUnavailable": 1, "selector": selector(site)}} if site.spec.replicas > 1 else None


def selector(site: Site) -> dict[str, Any]:
    return {"matchLabels": {"site": site.name}}


class SiteReconciler(DependentReconciler[Site], dependents=[Page, Server, Address, Budget]):
    async def report(self, site: Site, ctx: Context, children: kv.Children, /) -> None:
        site.status.available = children.live[Server].get("status", {}).get("availableReplicas", 0)
