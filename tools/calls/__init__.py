"""Calls as models write them: names (`names`) and arguments (`arguments`) that are almost right are understood.

Begin with `arguments`; `loose_json`, `coerce` and `foreign_arguments` are its steps.
"""
