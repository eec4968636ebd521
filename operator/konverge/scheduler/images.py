"""Container images and the nodes that hold them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True, eq=False)
class Image:
    """An image that some nodes hold. Its size is what the first of them said, in bytes."""

    size: int
    rows: set[int] = field(default_factory=set)


class ImageIndex:
    """The images by name."""

    def __init__(self) -> None:
        self._images: dict[str, Image] = {}
        self._names: dict[int, tuple[str, ...]] = {}

    def get(self, name: str) -> Image | None:
        """The image of that name, if a node holds it."""
        return self._images.get(name)

    def set(self, row: int, images: Mapping[str, int]) -> None:
        """What the node of `row` holds now: sizes by name."""
        for name in self._names.pop(row, ()):
            image = self._images[name]
            image.rows.discard(row)
            if not image.rows:
                del self._images[name]
        for name, size in images.items():
            self._images.setdefault(name, Image(size)).rows.add(row)
        if images:
            self._names[row] = tuple(images)


def images_of(status: Mapping[str, Any]) -> Mapping[str, int]:
    """The images in a node's status: sizes by name."""
    sizes: dict[str, int] = {}
    for image in status.get("images") or ():
        for name in image.get("names") or ():
            sizes.setdefault(name, image.get("sizeBytes") or 0)
    return sizes


def normalized(name: str) -> str:
    """The name with its tag: `latest` where there is none."""
    return f"{name}:latest" if name.rfind(":") <= name.rfind("/") else name
