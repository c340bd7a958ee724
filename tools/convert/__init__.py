"""Turns HTML, PDF and plain files into text, in a worker process without rights and with little time."""

from __future__ import annotations

from ossia.tools.convert.converter import ConversionFailed, Converter, ConvertLimits

__all__ = ["ConversionFailed", "ConvertLimits", "Converter"]
