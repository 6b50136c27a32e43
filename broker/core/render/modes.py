"""The modes of rendering by name."""

from __future__ import annotations

from typing import assert_never

from broker.core.audited import RenderRecord
from broker.core.render.bare import Bare
from broker.core.render.documents import Documents
from broker.core.render.fenced import Fenced
from broker.core.render.markdown import Markdown
from broker.core.render.renderer import Renderer
from broker.core.render.seals import Sealer
from broker.core.request import CompositionRequest, RenderMode


def renderer_of(mode: RenderMode, sealer: Sealer | None) -> Renderer:
    """What renders a mode.

    Args:
        mode: The mode.
        sealer: Makes the seals, in modes that have any; None: there are none.
    """
    match mode:
        case RenderMode.FENCED:
            return Fenced(sealer)
        case RenderMode.MARKDOWN:
            return Markdown(sealer)
        case RenderMode.JSON:
            return Documents()
        case RenderMode.NONE:
            return Bare()
    assert_never(mode)


def render_record(request: CompositionRequest) -> RenderRecord:
    """How the context of a request is written, for its audit."""
    data_alone = request.mode.data_alone
    return RenderRecord(
        # What ``value`` gives, without the two calls that it is.
        mode=request.mode._value_,
        fence="" if data_alone else request.fence._value_,
        restated_question=not data_alone and bool(request.question.strip()),
    )
