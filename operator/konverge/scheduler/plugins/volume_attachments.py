"""What nodes have attached, and how much they can: claims, CSINodes and VolumeAttachments flow in, volumes and counts flow out."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np

from konverge.model import meta
from konverge.model.resource import CSINode, Object, PersistentVolume, StorageClass, VolumeAttachment
from konverge.scheduler.columns import IntArray
from konverge.scheduler.handle import Index, Lister
from konverge.scheduler.plugins.volume_objects import class_of, spec_of, volume_name
from konverge.scheduler.snapshot import Snapshot

MIGRATED: Final = {
    "kubernetes.io/aws-ebs": ("awsElasticBlockStore", "ebs.csi.aws.com"),
    "kubernetes.io/gce-pd": ("gcePersistentDisk", "pd.csi.storage.gke.io"),
    "kubernetes.io/azure-disk": ("azureDisk", "disk.csi.azure.com"),
    "kubernetes.io/cinder": ("cinder", "cinder.csi.openstack.org"),
    "kubernetes.io/portworx-volume": ("portworxVolume", "pxd.portworx.com"),
}
"""Provisioners of old: the field of a volume of theirs, and the CSI driver that does their work today."""

_NO_LIMIT: Final = np.iinfo(np.int64).max // 2


class Attached(NamedTuple):
    """A volume as a node counts it."""

    driver: str
    handle: str


def limits_of(csi_node: Object | None) -> Mapping[str, int]:
    """How many volumes each driver can attach to the node, where it has a limit."""
    drivers = (spec_of(csi_node).get("drivers") or ()) if csi_node else ()
    counts = {driver["name"]: (driver.get("allocatable") or {}).get("count") for driver in drivers}
    return {name: count for name, count in counts.items() if count is not None}


def volume_of(claim: Object, lister: Lister) -> Iterable[Attached]:
    """The claim's volume, none where no driver attaches it."""
    volume = lister.get(PersistentVolume, volume_name(claim)) if volume_name(claim) else None
    if volume is None:
        yield from _volume_to_be(claim, lister)
        return
    spec = spec_of(volume)
    if csi := spec.get("csi"):
        yield Attached(csi["driver"], csi["volumeHandle"])
        return
    for field, driver in MIGRATED.values():
        if spec.get(field):
            yield Attached(driver, f"pv/{meta.key_of(volume).name}")


def _volume_to_be(claim: Object, lister: Lister) -> Iterable[Attached]:
    """What will be made for a claim that has no volume yet, by the driver of its class."""
    found = lister.get(StorageClass, class_of(claim)) if class_of(claim) else None
    provisioner = (found or {}).get("provisioner")
    if provisioner:
        _, driver = MIGRATED.get(provisioner, ("", provisioner))
        yield Attached(driver, f"claim/{meta.key_of(claim)}")


def attached_to(node_name: str, lister: Lister) -> Iterable[Attached]:
    """What is attached to the node, also what no pod there uses any more."""
    for attachment in lister.by_index(VolumeAttachment, _BY_NODE, node_name):
        spec = spec_of(attachment)
        name = (spec.get("source") or {}).get("persistentVolumeName")
        volume = lister.get(PersistentVolume, name) if name else None
        csi = spec_of(volume).get("csi") if volume else None
        if csi and spec.get("attacher"):
            yield Attached(spec["attacher"], csi["volumeHandle"])


class Ceilings:
    """How many volumes each node could have attached at most besides those of its VolumeAttachments, by row."""

    def __init__(self, lister: Lister) -> None:
        self._lister = lister
        self._stand: tuple[int, int] = (-1, -1)
        self._rows: IntArray | None = None
        self._by_driver: dict[str, IntArray] = {}

    def of(self, driver: str, snapshot: Snapshot, rows: IntArray) -> IntArray:
        """Those of a driver; a huge number where it has no limit."""
        stand = self._lister.version(CSINode), self._lister.version(VolumeAttachment)
        if self._stand != stand or self._rows is not snapshot.rows:
            self._by_driver = self._read(snapshot)
            self._stand, self._rows = stand, snapshot.rows
        found = self._by_driver.get(driver)
        return np.full(len(rows), _NO_LIMIT) if found is None else found[rows]

    def _read(self, snapshot: Snapshot) -> dict[str, IntArray]:
        attached = Counter(_node_of(each) for each in self._lister.list(VolumeAttachment))
        result: dict[str, IntArray] = {}
        for csi_node in self._lister.list(CSINode):
            name = meta.key_of(csi_node).name
            row = snapshot.row_of(name)
            for driver, limit in limits_of(csi_node).items() if row is not None else ():
                by_row = result.setdefault(driver, np.full(snapshot.size, _NO_LIMIT))
                by_row[row] = limit - attached[name]
        return result


def _node_of(attachment: Object) -> str:
    return str(spec_of(attachment).get("nodeName") or "")


_BY_NODE: Final = Index("node", lambda attachment: (_node_of(attachment),))
