"""A SecretCopy keeps one Secret in other namespaces, such as the credentials of a registry.

Whoever may create one has the operator read any Secret and write it anywhere: give that right to administrators only.
"""

from typing import Annotated

from pydantic import Field

import konverge as kv
from konverge import Context, CustomResource, Key, Part, Reconciler, Result, Rule, Spec, Status, by_index, index, watch


class Source(Part):
    namespace: str = Field(max_length=63, description="The namespace of the Secret.")
    name: str = Field(max_length=253, description="The name of the Secret, and of its copies.")


class SecretCopySpec(Spec):
    source: Source = Field(description="The Secret that is copied.")
    namespaces: set[Annotated[str, Field(max_length=63)]] = Field(max_length=100, description="Where the copies are.")


RULE = Rule("!(self.source.namespace in self.namespaces)", "a Secret is no copy of itself")


class SecretCopy(
    CustomResource[SecretCopySpec, Status], group="demo.dev", version="v1", namespaced=False, rules=[RULE]
):
    """One Secret, kept in other namespaces."""


class SecretCopyReconciler(
    Reconciler[SecretCopy],
    owns=[kv.Secret],
    watches=[watch(kv.Secret, to=by_index("source")), watch(kv.Namespace, to=by_index("namespaces"))],
    indexes=[
        index(SecretCopy, "source", lambda copy: ["{namespace}/{name}".format(**copy["spec"]["source"])]),
        index(SecretCopy, "namespaces", lambda copy: copy["spec"]["namespaces"]),
    ],
):
    async def reconcile(self, copy: SecretCopy, ctx: Context, /) -> Result:
        source, wanted = copy.spec.source, copy.spec.namespaces
        await ctx.prune(kv.Secret, [Key(namespace, source.name) for namespace in wanted])
        secret = ctx.get(kv.Secret, source.name, source.namespace)
        if secret is None:
            return Result.waiting("NoSource", f"there is no Secret {source.namespace}/{source.name}")
        missing = sorted(namespace for namespace in wanted if ctx.get(kv.Namespace, namespace) is None)
        for namespace in sorted(wanted.difference(missing)):
            desired = {"type": secret["type"], "data": secret.get("data", {})}
            await ctx.apply(kv.Secret, source.name, desired, namespace=namespace)
        return Result.waiting("NoNamespace", f"there is no {', '.join(missing)}") if missing else Result.done()
