"""The Echo operator as users of Konverge write it: an Echo in, its ConfigMap and status out.

`python bench/peers/konverge_echo.py` runs it on the cluster that KUBECONFIG names; flags are those of `konverge run`.
ECHO_WORKERS is the number of objects that are reconciled at once; without it Konverge's default holds.
"""

import os
import sys

from konverge import ConfigMap, Context, CustomResource, Reconciler, Result, Spec, Status
from konverge.cli import main

WORKERS = int(os.environ.get("ECHO_WORKERS", "0")) or None


class EchoSpec(Spec):
    message: str


class EchoStatus(Status):
    pass


class Echo(CustomResource[EchoSpec, EchoStatus], group="bench.konverge.dev", version="v1", plural="echoes"):
    """Puts its message into a ConfigMap of its own name."""


class EchoReconciler(Reconciler[Echo], owns=[ConfigMap], workers=WORKERS):
    async def reconcile(self, echo: Echo, ctx: Context, /) -> Result:
        await ctx.apply(ConfigMap, echo.name, {"data": {"message": echo.spec.message}})
        return Result.done()


if __name__ == "__main__":
    main(["run", __file__, "--metrics-address", "0", "--probe-address", "0", *sys.argv[1:]])
