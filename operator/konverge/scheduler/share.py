"""Which replica places which pod, where several share the work: the members flow in, the one in charge of a pod flows out.

Of all members the one with the highest hash of itself and the pod's key is in charge (rendezvous hashing): so all replicas
that know of the same members agree, and when one comes or goes only the pods that it gains or had change hands. While they
disagree a pod may be tried by two or by none for a moment; what they may promise is settled elsewhere (see `bookings`).
"""

from collections.abc import Collection
from hashlib import blake2b

from konverge.scheduler.gangs import gang_of
from konverge.scheduler.podinfo import PodInfo


def key_of(pod: PodInfo) -> str:
    """What is hashed of a pod: its own key, or that of its gang, whose members one replica must see together."""
    gang = gang_of(pod)
    return f"{pod.namespace}/{pod.name}" if gang is None else f"{gang.namespace}/{gang.name}/"


def in_charge(pod: PodInfo, members: Collection[str]) -> str:
    """The member that places the pod. Raises: ValueError without members."""
    key = key_of(pod)
    return max(members, key=lambda member: (_hash(member, key), member))


def _hash(member: str, key: str) -> bytes:
    return blake2b(key.encode(), digest_size=8, key=blake2b(member.encode(), digest_size=32).digest()).digest()
