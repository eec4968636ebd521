"""The Echo operator as users of kopf write it: one handler for what is created, edited or found at the start.

`python bench/peers/kopf_echo.py` runs it on the cluster that KUBECONFIG names. ECHO_WORKERS bounds the objects that are
handled at once; without it there is no bound, which is kopf's default.
"""

import os
from datetime import UTC, datetime
from typing import Any

import kopf
from kubernetes.aio import client, config
from kubernetes.aio.client.exceptions import ApiException

RESOURCE = ("bench.konverge.dev", "v1", "echoes")


@kopf.on.startup()
async def start(settings: kopf.OperatorSettings, memo: Any, **_: Any) -> None:
    settings.posting.enabled = False  # an Event object for each handled object would double the requests
    if workers := os.environ.get("ECHO_WORKERS"):
        settings.queueing.worker_limit = int(workers)
    await config.load_kube_config()
    memo.client = client.ApiClient()
    memo.core = client.CoreV1Api(memo.client)


@kopf.on.cleanup()
async def stop(memo: Any, **_: Any) -> None:
    await memo.client.close()


@kopf.on.create(*RESOURCE)
@kopf.on.update(*RESOURCE)
@kopf.on.resume(*RESOURCE)
async def echo(
    name: str, namespace: str | None, spec: kopf.Spec, body: kopf.Body, patch: kopf.Patch, memo: Any, **_: Any
) -> None:
    child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"message": spec["message"]}}
    kopf.adopt(child, owner=body)
    try:
        await memo.core.create_namespaced_config_map(namespace, child)
    except ApiException as error:
        if error.status != 409:
            raise
        await memo.core.patch_namespaced_config_map(name, namespace, child)
    generation = body.metadata["generation"]
    patch.status["observedGeneration"] = generation
    patch.status["conditions"] = [
        {
            "type": "Ready",
            "status": "True",
            "observedGeneration": generation,
            "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "reason": "Reconciled",
            "message": "",
        }
    ]


if __name__ == "__main__":
    kopf.run(clusterwide=True, standalone=True)
