"""The command line. Each command is a module beside this one, imported when it is called."""

import importlib
import os
import sys
from typing import Final

import click

from pycomm import __version__
from pycomm.errors import Error, UsageError

# name: (module of ``command``, what it does)
COMMANDS: Final = {
    "bench": ("pycomm.cli.bench", "Measure a collective operation over sizes, algorithms and backends."),
    "tune": ("pycomm.cli.tune", "Find out which algorithm is the fastest at each size, for auto to go by."),
    "fit": ("pycomm.cli.fit", "Latency and bandwidth behind measured all-reduces, with confidence intervals."),
    "predict": ("pycomm.cli.predict", "The iteration time on N workers, and what holds it back."),
    "validate": ("pycomm.cli.validate", "Predicted against measured on published runs."),
    "list": ("pycomm.cli.registry", "List the algorithms, with what each costs, counted from its schedule."),
    "schedule": ("pycomm.cli.schedule", "Draw who sends what when, or prove a schedule right without running it."),
    "info": ("pycomm.cli.info", "Say what this build and this machine can do, and what is missing and why."),
}

# What launchers call a process's rank.
RANK_NAMES: Final = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID", "RANK")

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


class Commands(click.Group):
    """The table above as a click group: importing pycomm.cli imports no command."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="pycomm %(version)s")
def pycomm() -> None:
    """Measure, prove and predict the communication of distributed deep learning."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit status: 0 done, 1 failed, 2 usage, 130 interrupted.

    ``arguments`` are those after the program's name; none given: the process's own.
    """
    try:
        given = tuple(sys.argv[1:] if arguments is None else arguments)
        status = pycomm.main(list(given), prog_name="pycomm", standalone_mode=False, obj=given)
    except click.Abort:
        return _say("interrupted", INTERRUPTED)
    except KeyboardInterrupt:
        return _say("interrupted", INTERRUPTED)
    except click.ClickException as error:
        if not _leads():
            return DONE
        error.show()
        return error.exit_code
    except UsageError as error:
        return _say(str(error), USAGE) if _leads() else DONE
    except Error as error:
        return _say(str(error), FAILED)
    except BrokenPipeError:
        # The reader of our output left (`pycomm list | head`): let the last flush go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    return status if isinstance(status, int) else DONE


def _leads() -> bool:
    """Whether this process speaks for its job: every rank finds a usage error, and one message is enough.

    The others end as if all were well, since a launcher ends the job at the first that does not, perhaps before
    this one has spoken.
    """
    from pycomm.launched import launched_ranks

    if launched_ranks() is None:
        return True
    ranks = (os.environ[name] for name in RANK_NAMES if name in os.environ)
    return next(ranks, "0") == "0"


def _say(message: str, status: int) -> int:
    print(f"pycomm: {message}", file=sys.stderr)
    return status
