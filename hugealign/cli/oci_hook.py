"""``hugealign oci-hook``: the hook that podman, CRI-O and other engines start for each container."""

import argparse
import os
import sys
from dataclasses import replace

from hugealign.io.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from hugealign.services.oci import Bound

EPILOG = """\
A container engine runs this hook as root before the container's first process,
at the createRuntime stage, with the container's state on standard input. The
image does not change. Containers of one image share the copies, which are in
/run/hugealign-containers. Annotations of the container decide what is copied:

  hugealign.text=auto      copy the programs that the container's command names
                           and, if it is a script, those that the script starts
  hugealign.text=PATH:...  copy these programs and libraries; for a directory,
                           those below it
  hugealign.fix=true       fix the copy of each file that fix gives more windows

Programs that are not staged within 20 s run from the image, because engines kill
slow hooks.

--install writes the hook where podman looks for hooks by its configuration,
usually /usr/share/containers/oci/hooks.d/hugealign.json. Engines hide what a
hook prints: look at journalctl -t hugealign, or at hugealign status.

example:
  hugealign oci-hook --install
  podman run --annotation hugealign.text=auto \\
      --annotation hugealign.fix=true IMAGE
"""
STATUS = {
    0: "as a hook always: if a program cannot be staged, the container starts as before",
    1: "with --install or --uninstall: nothing was changed, and one line says why",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    from hugealign.services import oci

    parser.add_argument(
        "--store", metavar="DIR", default=oci.STORE, help=f"the directory of the copies (default: {oci.STORE})"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--install", action="store_true", help="write the hook where podman looks, and do nothing else")
    what.add_argument("--uninstall", action="store_true", help="remove the hook, and do nothing else")
    about = "for the hook that hugealign enable --all installs: cover what that has chosen, without a request"
    what.add_argument("--all", action="store_true", help=about)
    parser.add_argument("--fix", action="store_true", help="with --all: by fixed copies where these have more windows")
    parser.add_argument("-v", "--verbose", action="store_true", help="also print what was staged")


def run(args: argparse.Namespace) -> int:
    """Stage and bind the programs that the container requests; return 0."""
    from hugealign.diagnosis.refusal import DiagnosedError
    from hugealign.services import oci
    from hugealign.system import children

    os.umask(0o022)  # everyone reads, and only we change, what the system runs
    if args.install or args.uninstall:
        return _change(args)
    # In a child: the work can wait for a lock, a disk or a server, and must end with us.
    try:
        work = children.function(lambda: _work(args))
        children.collect([work], oci.SECONDS)
        if work.status is None:
            _say(f"oci-hook: {DiagnosedError('container.no-time', seconds=round(oci.SECONDS))}")
        elif work.status:
            _say(f"oci-hook: {DiagnosedError('container.hook-ended', status=work.status)}")
    except Exception as error:  # noqa: BLE001  # whatever happens, the container starts
        _say(f"oci-hook: {error}")
    return 0


def _change(args: argparse.Namespace) -> int:
    """Install or remove the hook, and return the exit status."""
    from hugealign.diagnosis.refusal import DiagnosedError, RefusalError, error_name
    from hugealign.services import enable, oci

    try:
        if args.install:
            print(f"wrote {printable(oci.install(enable.command()))}")
            return 0
        if not (removed := oci.uninstall()):
            raise RefusalError("machine.unchanged")
    except OSError as error:
        path = os.fsdecode(error.filename or "")
        raise DiagnosedError("service.unit-file", file=path, error=error_name(error)) from error
    print(*(f"removed {printable(path)}" for path in removed), sep="\n")
    return 0


def _work(args: argparse.Namespace) -> None:
    from hugealign.diagnosis import render
    from hugealign.diagnosis.values import Diagnosis
    from hugealign.services import oci

    try:
        for bound in _of_machine(args) if args.all else _requested(args):
            if bound.diagnosis:
                no_store = bound.diagnosis.code == "store.failed" and oci.rootless()
                why = Diagnosis("container.rootless", bound.path, {}) if no_store else bound.diagnosis
                _say(f"{bound.path}: {render.text(why)}")
            elif args.verbose:
                _say(f"{bound.path}: {bound.windows} windows in a huge copy")
    except Exception as error:  # noqa: BLE001  # whatever an image contains, the container starts
        _say(f"oci-hook: {error}")


def _requested(args: argparse.Namespace) -> "Iterable[Bound]":
    """Bind what the container requests."""
    from hugealign.services import oci

    wanted = oci.container(oci.read_state())
    return oci.bind(wanted, args.store) if wanted else ()


def _of_machine(args: argparse.Namespace) -> "Iterable[Bound]":
    """Bind what `enable --all` has chosen."""
    from hugealign.machine import machine_policy, state
    from hugealign.services import oci

    known, wanted = state.read(), oci.container(oci.read_state(), silent=True)
    files = {path: one.identities for one in (known.hooked() if known else ()) for path in one.part.files}
    if not wanted or not files:
        return ()
    included = list(filter(machine_policy.read().includes, files))
    return oci.cover(replace(wanted, fix=args.fix), files, included, args.store)


def _say(line: str) -> None:
    from hugealign.system import hooks

    hooks.say(printable(line))
    print(f"hugealign: {printable(line)}", file=sys.stderr)
