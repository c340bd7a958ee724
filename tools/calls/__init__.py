"""Calls as models write them: names (`names`) and arguments (`arguments`) that are almost right are understood.

Begin with `arguments`; `coerce` reads JSON that is almost right and fits values to a schema.
"""
