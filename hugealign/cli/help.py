"""``hugealign help``: what ``--help`` prints, of a command or of all."""

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command that is asked about."""
    parser.add_argument("topic", nargs="?", metavar="COMMAND", help="without one, all commands are listed")


def run(args: argparse.Namespace) -> int:
    """Print the help; 127 for a command that there is none of."""
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
