"""`ossia python`: the environment of the model's code."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Annotated

import typer

from ossia.cli import paths
from ossia.cli.commands import exit_error, group
from ossia.cli.terminal.keyboard import plain_keys

app = group("Install or list packages for the model's Python.")


@app.command()
@plain_keys()
def setup(
    packages: Annotated[
        list[str] | None, typer.Argument(metavar="[PACKAGE]...", help="More packages, e.g. requests or 'scipy>=1.15'.")
    ] = None,
) -> None:
    """Install numpy, pandas, matplotlib, sympy and the packages you name. Run it again to add more.

    They go into an environment of their own, apart from ossia's and yours.
    """
    from ossia.tools.import_path import environment_for
    from ossia.tools.python.choice import own_environment
    from ossia.tools.python.environment import EnvironmentFailed

    for package in packages or ():
        if not package.strip():
            raise exit_error(f"python setup: must be the name of a package, not {package!r}")
    environment = own_environment(paths.host())
    try:
        uv = shutil.which("uv", path=environment_for(None, os.environ).get("PATH"))
        environment.setup(packages or (), log=sys.stderr, uv=uv)
    except EnvironmentFailed as error:
        raise exit_error(str(error), "FAILED") from None
    except OSError as error:
        raise exit_error(f"{environment.folder}: {error.strerror}", "FAILED") from None
    print(environment.executable)


@app.command("list")
def list_() -> None:
    """Print the packages of the model's Python, name and version."""
    from ossia.tools.python.choice import own_environment
    from ossia.tools.python.environment import EnvironmentFailed

    try:
        packages = own_environment(paths.host()).packages()
    except EnvironmentFailed as error:
        raise exit_error(str(error)) from None
    width = max((len(package.name) for package in packages), default=0)
    for package in packages:
        print(f"{package.name:<{width}}  {package.version}")
