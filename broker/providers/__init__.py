"""Ready-made providers over a folder, each with the score that its engine natively gives.

Importing this package costs nothing: a provider's module is imported when its name is looked up in :data:`PROVIDERS`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.providers.provider import FolderProvider

_CLASSES = MappingProxyType(
    {
        "files": ("broker.providers.files", "FilesProvider"),
        "symbols": ("broker.providers.symbols", "SymbolsProvider"),
        "history": ("broker.providers.history", "HistoryProvider"),
    }
)


class _Registry(Mapping[str, "type[FolderProvider]"]):
    """Provider classes by name, each imported on first use."""

    def __getitem__(self, name: str) -> type[FolderProvider]:
        module, attribute = _CLASSES[name]
        found: type[FolderProvider] = getattr(import_module(module), attribute)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)

    def __contains__(self, name: object) -> bool:
        return name in _CLASSES


PROVIDERS: Mapping[str, type[FolderProvider]] = _Registry()
"""The ready-made providers, name → class, in the order in which they are listed. A class is imported when it is got."""
