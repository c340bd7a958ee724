"""The model's `python`: a Jupyter kernel in a sandbox.

Begin with `tool`; `_kernel` is our side of a kernel, `_kernel_inside` what runs in it.
"""
