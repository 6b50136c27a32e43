"""What every ready-made provider is, and the checks that opening a folder shares."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from broker.core.frames import Frame
from broker.core.scores import ScoreScale
from broker.errors import InvalidArgument, Unavailable

if TYPE_CHECKING:
    from broker.client.query import Query


class FolderProvider(Protocol):
    """Evidence from one folder.

    Attributes:
        name: The provider's name, as floors and weights cite it.
        scale: What its scores are.
        kinds: The frame kinds it offers.
    """

    name: str
    scale: ScoreScale
    kinds: tuple[str, ...]

    @classmethod
    def open(cls, directory: Path) -> Self:
        """Reads the folder and builds what answers come from; blocks until that is done.

        Raises:
            InvalidArgument: The folder is not there, or holds nothing that this provider can read at all.
        """

    async def answer(self, query: Query) -> list[Frame]:
        """The frames for one question, best first, within the query's grants of frames and tokens.

        Raises:
            Unavailable: The folder went away.
        """

    def close(self) -> None:
        """Gives back what the provider holds; it answers nothing afterwards. Calling it again does nothing."""


def folder_root(directory: Path) -> Path:
    """The folder's absolute path, with links in it resolved.

    Raises:
        InvalidArgument: ``FOLDER_MISSING``, ``FOLDER_NOT_A_FOLDER`` or ``FOLDER_UNREADABLE``.
    """
    try:
        root = directory.expanduser().resolve(strict=True)
    except (FileNotFoundError, NotADirectoryError):
        raise InvalidArgument(
            "FOLDER_MISSING", f"there is no folder {str(directory)!r}; name one that exists"
        ) from None
    except (OSError, RuntimeError, ValueError) as error:
        raise InvalidArgument(
            "FOLDER_UNREADABLE", f"the folder {str(directory)!r} cannot be read ({error}); name another one"
        ) from None
    if not root.is_dir():
        raise InvalidArgument(
            "FOLDER_NOT_A_FOLDER", f"{str(directory)!r} is not a folder; name the folder that holds the file"
        )
    return root


def log_held(log: Any, event: str, held: int, nothing: str, **more: object) -> None:
    """Logs what opening a folder found: for information, or as a warning where nothing can ever be answered from it.

    Args:
        log: The provider's logger.
        event: What was read.
        held: How many pieces of evidence there are.
        nothing: What to say, and to do, where there is none.
        more: Counts for the log.
    """
    if held:
        log.info(event, **more)
    else:
        log.warning(f"{nothing}; until then every answer is empty", **more)


def require_folder(root: Path) -> None:
    """Checks that a folder opened before is still there, so that one that went away is no empty answer.

    Raises:
        Unavailable: ``FOLDER_GONE``.
    """
    if not root.is_dir():
        raise Unavailable(
            "FOLDER_GONE", f"the folder {str(root)!r} went away; put it back, or start the provider on another one"
        )


def holds_at(recorded_at: str, as_of: str) -> bool:
    """Whether something recorded then (``YYYY-MM-DDTHH:MM:SS…Z``) was there at ``as_of``; empty means now."""
    return not as_of or recorded_at[:19] <= as_of[:19]
