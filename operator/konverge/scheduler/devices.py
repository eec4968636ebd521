"""Which resources are GPUs, by their names: `nvidia.com/gpu`, `nvidia.com/mig-1g.5gb`, `amd.com/gpu`, `gpu.intel.com/i915`."""

from functools import lru_cache

from konverge.scheduler.podinfo import PodInfo


def asks_gpu(pod: PodInfo) -> bool:
    """Whether the pod requests a GPU or a part of one."""
    return any(amount > 0 and is_gpu(name) for name, amount in pod.requests.amounts.items())


@lru_cache(maxsize=1024)
def is_gpu(resource: str) -> bool:
    """Whether an extended resource of that name is a kind of GPU."""
    vendor, slash, device = resource.partition("/")
    return bool(slash) and (device.startswith(("gpu", "mig-")) or vendor.startswith("gpu."))
