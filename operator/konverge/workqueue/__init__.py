"""Keys with work to do: deduplicated, delayed, limited and ordered between the sources and the workers."""

from konverge.workqueue.queue import LOW_PRIORITY, QueueObserver, QueueShutDown, WorkQueue
from konverge.workqueue.ratelimit import ExponentialPerKey, RateLimiter, Slowest, TokenBucket, default_limiter
from konverge.workqueue.sharded import Queue, ShardedQueue

__all__ = [
    "LOW_PRIORITY",
    "ExponentialPerKey",
    "Queue",
    "QueueObserver",
    "QueueShutDown",
    "RateLimiter",
    "ShardedQueue",
    "Slowest",
    "TokenBucket",
    "WorkQueue",
    "default_limiter",
]
