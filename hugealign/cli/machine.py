"""What `enable --all` and `disable --all` do: the whole machine."""

import argparse
from dataclasses import replace

from hugealign.cli import arguments, messages, output
from hugealign.errors import HugealignError, UsageError
from hugealign.io.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hugealign.machine.machine_policy import Policy


def enable(args: argparse.Namespace) -> int:
    """Look, print the plan and carry it out, as *args* say; return the exit status."""
    from hugealign.diagnosis import documents, render
    from hugealign.machine import hold, machine, machine_policy, report

    if args.units:
        raise UsageError("--all is the whole machine: leave UNIT out, or name it in include = [...] of the policy")
    if args.libs or args.file or args.now:
        raise UsageError("--libs, --file and --now are for a UNIT: --all finds libraries itself, and restarts nothing")
    if args.hold:
        hold.hold(lambda diagnosis: messages.warning(f"{printable(diagnosis.subject)}: {render.text(diagnosis)}"))
        return 0
    seconds = machine.SECONDS if args.seconds is None else args.seconds
    bound = 0
    try:
        wanted, given = _policy(args, machine_policy.read())
        bound = wanted.bound()
        if args.dry_run:
            outcome = machine.look(wanted, seconds)
        elif args.renew:
            outcome = machine.renew(wanted, seconds)
        else:
            outcome = machine.enable_all(wanted, machine_policy.words(wanted, given), seconds)
    except HugealignError as error:
        if args.renew:
            machine.note_failure(error)
        if args.json:
            print(documents.text(report.Report(bound, None, documents.failed([("--all", error)]))), end="")
        else:
            messages.failed("--all", error)
        return error.exit_status
    if args.json:
        print(documents.text(report.Report(bound, outcome)), end="")
    else:
        output.show(report.lines(outcome, bound, every=args.verbose))
    return 1 if outcome.failed else 0


def _policy(args: argparse.Namespace, policy: "Policy") -> "tuple[Policy, list[str]]":
    """Return *policy* with the changes of *args*, and these changes."""
    given: list[str] = []
    if args.max is not None:
        policy, given = replace(policy, max=arguments.memory(args.max)), ["max"]
    if args.least is not None:
        policy, given = replace(policy, least=args.least), [*given, "least"]
    policy = replace(policy, fix=policy.fix or args.fix, everything=policy.everything or args.everything)
    return policy, [*given, *(name for name in ("fix", "everything") if getattr(args, name))]


def disable(args: argparse.Namespace) -> int:
    """Undo all that `enable --all` did, and return the exit status."""
    from hugealign.diagnosis import documents
    from hugealign.machine import machine
    from hugealign.services.enable import Changed, Report

    if args.units:
        raise UsageError("--all is the whole machine: leave UNIT out")
    try:
        removed = machine.disable_all()
    except HugealignError as error:
        if args.json:
            print(documents.text(Report((), documents.failed([("--all", error)]))), end="")
        else:
            messages.failed("--all", error)
        return error.exit_status
    if args.json:
        print(documents.text(Report([Changed(name, ()) for name in removed], ())), end="")
    else:
        output.show([f"removed {printable(name)}" for name in removed])
    return 0
