"""What the cluster holds, in memory: lists and watches flow in, reads without requests and changes flow out."""

from konverge.cache.informer import Cache, Caches, Informer
from konverge.cache.reflector import Reflector, ReflectorHealth
from konverge.cache.store import OWNER_INDEX, Change, ChangeType, Store, strip_managed_fields

__all__ = [
    "OWNER_INDEX",
    "Cache",
    "Caches",
    "Change",
    "ChangeType",
    "Informer",
    "Reflector",
    "ReflectorHealth",
    "Store",
    "strip_managed_fields",
]
