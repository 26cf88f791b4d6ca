"""``hugealign help``: print the ``--help`` of one command or of hugealign."""

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command to explain."""
    parser.add_argument("topic", nargs="?", metavar="COMMAND", help="without one, all commands are listed")


def run(args: argparse.Namespace) -> int:
    """Print the help; return 127 for an unknown command."""
    from hugealign import cli
    from hugealign.cli import messages

    if args.topic is None:
        cli.parser().print_help()
    elif args.topic in cli.COMMANDS:
        cli.command_parser(args.topic).print_help()
    else:
        messages.error(f"{cli.not_found(args.topic)}; `hugealign help` lists the commands")
        return 127
    return 0
