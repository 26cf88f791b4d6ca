"""``hugealign oci-hook``: the hook that podman, CRI-O and other engines start for each container."""

import argparse
import os
import sys

from hugealign.io.units import printable

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

example:
  install -D -m 644 examples/containers/hugealign.json \\
      /etc/containers/oci/hooks.d/hugealign.json
  podman run --annotation hugealign.text=auto \\
      --annotation hugealign.fix=true IMAGE
"""
STATUS = {0: "always: if a program cannot be staged, the container starts as before", 2: "", 3: ""}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    from hugealign.services import oci

    parser.add_argument(
        "--store", metavar="DIR", default=oci.STORE, help=f"the directory of the copies (default: {oci.STORE})"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="also print what was staged")


def run(args: argparse.Namespace) -> int:
    """Stage and bind the programs that the container requests; return 0."""
    from hugealign.diagnosis.refusal import DiagnosedError
    from hugealign.services import oci
    from hugealign.system import children

    os.umask(0o022)  # everyone reads, and only we change, what the system runs
    # In a child, since whatever waits there, for a lock, a disk or a server, has to end with us.
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


def _work(args: argparse.Namespace) -> None:
    from hugealign.diagnosis import render
    from hugealign.services import oci

    try:
        wanted = oci.container(oci.read_state())
        for bound in oci.bind(wanted, args.store) if wanted else ():
            if bound.diagnosis:
                _say(f"{bound.path}: {render.text(bound.diagnosis)}")
            elif args.verbose:
                _say(f"{bound.path}: {bound.windows} windows in a huge copy")
    except Exception as error:  # noqa: BLE001  # whatever an image contains, the container starts
        _say(f"oci-hook: {error}")


def _say(line: str) -> None:
    print(f"hugealign: {printable(line)}", file=sys.stderr)
