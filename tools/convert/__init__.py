"""Turns HTML, PDF and plain files into text, in a worker process without rights and with little time."""
