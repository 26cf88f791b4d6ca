"""``hugealign help``: print the ``--help`` of one command or of hugealign."""

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command to explain."""
    parser.add_argument("topic", nargs="?", metavar="COMMAND", help="the command; without one, list all commands")


def run(args: argparse.Namespace) -> int:
    """Print the help; raise UsageError for an unknown command."""
    from hugealign import cli
    from hugealign.errors import UsageError
    from hugealign.io.units import hint, printable

    if args.topic is None:
        cli.parser().print_help()
    elif args.topic in cli.COMMANDS | cli.LABORATORY:
        cli.command_parser(args.topic).print_help()
    else:
        near = hint(args.topic, cli.COMMANDS | cli.LABORATORY) or "; `hugealign help` lists the commands"
        raise UsageError(f"help: no command {printable(args.topic)}{near}")
    return 0
