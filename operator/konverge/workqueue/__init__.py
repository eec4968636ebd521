"""Keys with work to do: deduplicated, delayed, limited and ordered between the sources and the workers."""

from konverge.workqueue.queue import LOW_PRIORITY, QueueObserver, QueueShutDown, WorkQueue
from konverge.workqueue.ratelimit import ExponentialPerKey, RateLimiter, Slowest, TokenBucket, default_limiter

__all__ = [
    "LOW_PRIORITY",
    "ExponentialPerKey",
    "QueueObserver",
    "QueueShutDown",
    "RateLimiter",
    "Slowest",
    "TokenBucket",
    "WorkQueue",
    "default_limiter",
]
