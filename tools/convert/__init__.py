"""Making text of HTML, PDF and plain files, in a worker process that has no rights and little time."""

from __future__ import annotations

from tools.convert.converter import ConversionFailed, Converter, ConvertLimits

__all__ = ["ConversionFailed", "ConvertLimits", "Converter"]
