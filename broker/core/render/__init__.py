"""Rendering: evidence as text for a model, in one of several modes; :func:`~broker.core.render.modes.renderer_of`."""
