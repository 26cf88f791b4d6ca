"""Find out what a container requested of our hook, and whether its engine started that.

The engine's process beside a container leads to its bundle, which has its configuration (OCI runtime specification):
conmon of podman and CRI-O names it in an option, the shim of containerd and Docker runs in it.
"""

import os
from collections.abc import Iterator
from contextlib import suppress

from hugealign.diagnosis.values import ROOT, Diagnosis, Remedy
from hugealign.io.regular import FileError
from hugealign.process import groups, processes, procfs
from hugealign.system import hooks

_CONMON, _SHIM = "conmon", "containerd-shim"
_OPTIONS = (b"-b", b"--bundle")
_MOST_PARENTS = 64


def missed(pid: int) -> Diagnosis | None:
    """Return why the text of *pid* is not a copy of our hook though its container requests one.

    None if it requests none, or if we may not see that: the engine is another user's.
    """
    engine = pid
    for _ in range(_MOST_PARENTS):
        with suppress(OSError):
            engine = procfs.stat(f"{procfs.PROC}/{engine}/stat").parent
            if engine > 1 and not _is_engine(engine):
                continue
            return _judged(_bundle(engine, groups.container_id(groups.of_process(pid)))) if engine > 1 else None
        break
    return None


def unhooked() -> Iterator[Diagnosis]:
    """Yield a diagnosis for each container that requests our hook, and whose engine has not started it.

    None without /proc.
    """
    bundles: dict[str, None] = {}
    with suppress(processes.ProcessError):
        for pid in processes.pids():
            with suppress(OSError):
                if _is_engine(pid):
                    bundles |= dict.fromkeys(_bundles(pid))
    for diagnosis in map(_judged, bundles):
        if diagnosis and diagnosis.code == "container.no-hook":
            yield diagnosis


def _is_engine(pid: int) -> bool:
    """Return whether *pid* is our engine's process beside a container.  Raises OSError."""
    named = processes.comm(pid).startswith((_CONMON, _SHIM))
    return named and os.stat(f"{procfs.PROC}/{pid}").st_uid == os.geteuid()


def _bundles(engine: int) -> list[str]:
    """Return the bundles that the process *engine* leads to.  Raises OSError."""
    if processes.comm(engine).startswith(_SHIM):  # one for all containers of a pod, in the bundle of the first
        own = os.readlink(f"{procfs.PROC}/{engine}/cwd")
        return [own, *(entry.path for entry in os.scandir(os.path.dirname(own)) if entry.path != own)]
    words = procfs.read(f"{procfs.PROC}/{engine}/cmdline").split(b"\0")
    return [os.fsdecode(words[at + 1]) for at, word in enumerate(words[:-1]) if word in _OPTIONS]


def _bundle(engine: int, container: str) -> str:
    """Return the bundle of the *container* beside *engine*, empty if there is none.  Raises OSError."""
    bundles = _bundles(engine)
    named = [path for path in bundles if container and os.path.basename(path) == container]
    return next(iter([*named, *bundles]), "")


def _judged(bundle: str) -> Diagnosis | None:
    with suppress(FileError):
        configuration = hooks.parsed(os.path.join(bundle, "config.json")) if bundle else {}
        if not hooks.requested(configuration):
            return None
        if hooks.starts_ours(configuration):
            look = Remedy("look", ("journalctl", "-t", "hugealign"))
            return Diagnosis("container.hook-failed", bundle, {"said": hooks.said()}, look)
        install = Remedy("run-anew", ("hugealign", "oci-hook", "--install"), ROOT)
        return Diagnosis("container.no-hook", bundle, {}, Remedy("create-anew") if hooks.installed() else install)
    return None
