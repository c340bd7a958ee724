"""Completion of command lines: the scripts for shells, and the candidates that they ask `ossia completion` for."""
