"""The operator of the chaos tests: a Ledger becomes one ConfigMap a page, and removes its pages when it goes."""

from pydantic import Field

from konverge import ConfigMap, Context, CustomResource, Reconciler, Result, Spec, Status


class LedgerSpec(Spec):
    """What stands in a ledger."""

    pages: int = Field(default=2, ge=0, le=9, description="How many pages.")
    text: str = Field(default="", max_length=100, description="What stands on each page.")


class LedgerStatus(Status):
    """What was written."""

    pages: int = Field(default=0, description="How many pages there are.")


class Ledger(CustomResource[LedgerSpec, LedgerStatus], group="chaos.konverge.dev", version="v1"):
    """A book with pages."""


class LedgerReconciler(Reconciler[Ledger], owns=[ConfigMap]):
    """Pages first, then those too many go."""

    async def reconcile(self, ledger: Ledger, ctx: Context, /) -> Result:
        """Write the pages."""
        wanted = [f"{ledger.name}-{number}" for number in range(ledger.spec.pages)]
        for name in wanted:
            await ctx.apply(ConfigMap, name, {"data": {"text": ledger.spec.text}})
        for page in ctx.children(ConfigMap):
            if page["metadata"]["name"] not in wanted:
                await ctx.delete(ConfigMap, page["metadata"]["name"])
        ledger.status.pages = len(wanted)
        return Result.done()

    async def finalize(self, ledger: Ledger, ctx: Context, /) -> Result:
        """Tear the pages out before the book goes."""
        left = [page["metadata"]["name"] for page in ctx.children(ConfigMap)]
        for name in left:
            await ctx.delete(ConfigMap, name)
        return Result.waiting("TearingOut", f"{len(left)} pages left") if left else Result.done()
