"""A whole operator: a Web becomes a Deployment and a Service. Run it with `konverge run examples/web.py`."""

from pydantic import Field

from konverge import Context, CustomResource, Deployment, Reconciler, Result, Service, Spec, Status


class WebSpec(Spec):
    image: str = Field(max_length=255, description="The container image.")
    replicas: int = Field(default=1, ge=0, le=100, description="How many pods.")
    port: int = Field(default=80, ge=1, le=65535, description="The port that the container listens on.")


class WebStatus(Status):
    ready_replicas: int = Field(default=0, description="How many pods are ready.")


class Web(CustomResource[WebSpec, WebStatus], group="demo.dev", version="v1", short_names=["web"]):
    """A web server behind one address."""


class WebReconciler(Reconciler[Web], owns=[Deployment, Service]):
    async def reconcile(self, web: Web, ctx: Context, /) -> Result:
        labels = {"app.kubernetes.io/name": "web", "app.kubernetes.io/instance": web.name}
        container = {"name": "web", "image": web.spec.image, "ports": [{"containerPort": web.spec.port}]}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        selector = {"matchLabels": labels}
        deployment = await ctx.apply(
            Deployment, web.name, {"spec": {"replicas": web.spec.replicas, "selector": selector, "template": template}}
        )
        port = {"port": 80, "targetPort": web.spec.port}
        await ctx.apply(Service, web.name, {"spec": {"selector": labels, "ports": [port]}})
        status = deployment.get("status", {})
        web.status.ready_replicas = status.get("readyReplicas", 0)
        seen = status.get("observedGeneration") == deployment["metadata"]["generation"]
        if not seen or min(web.status.ready_replicas, status.get("updatedReplicas", 0)) < web.spec.replicas:
            return Result.waiting("RollingOut", f"{web.status.ready_replicas} of {web.spec.replicas} pods are ready")
        return Result.done()
