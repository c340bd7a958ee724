"""`ossia python`: the environment that the model's code runs in."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=False, rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def python(context: typer.Context) -> None:
    """Give the model's Python packages of its own, or list them."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def setup(
    packages: Annotated[
        list[str] | None, typer.Argument(metavar="[PACKAGE]...", help="More packages, e.g. requests or 'scipy>=1.15'.")
    ] = None,
) -> None:
    """Install numpy, pandas, matplotlib, sympy and what is named. Run it again to add more.

    They stand in an environment of their own, apart from ossia's and yours.
    """
    import shutil
    import sys

    from cli.exits import ExitCode, ExitError
    from cli.runtime.python import own_environment
    from tools.python.environment import EnvironmentFailed

    for package in packages or ():
        if not package.strip():
            raise ExitError(f"python setup: expected the name of a package, came {package!r}", ExitCode.USAGE)
    environment = own_environment()
    try:
        environment.setup(packages or (), log=sys.stderr, uv=shutil.which("uv"))
    except EnvironmentFailed as error:
        raise ExitError(str(error), ExitCode.FAILED) from None
    except OSError as error:
        raise ExitError(f"{environment.folder}: {error.strerror}", ExitCode.FAILED) from None
    print(environment.executable)


@app.command("list")
def list_() -> None:
    """Print the packages of the model's Python, name and version."""
    from cli.exits import ExitCode, ExitError
    from cli.runtime.python import own_environment
    from tools.python.environment import EnvironmentFailed

    try:
        packages = own_environment().packages()
    except EnvironmentFailed as error:
        raise ExitError(str(error), ExitCode.USAGE) from None
    width = max((len(package.name) for package in packages), default=0)
    for package in packages:
        print(f"{package.name:<{width}}  {package.version}")
