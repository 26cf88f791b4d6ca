"""Find out what a container requested of our hook, whether its engine started that, and where its files come from.

The engine's process beside a container leads to its bundle, which has its configuration (OCI runtime specification):
conmon of podman and CRI-O names it in an option, the shim of containerd and Docker runs in it.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from hugealign.diagnosis.values import ROOT, Diagnosis, Remedy
from hugealign.io import mounts
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
    with suppress(OSError):
        if engine := _engine(pid):
            return _judged(_bundle(engine, groups.container_id(groups.of_process(pid))))
    return None


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the files of a container come from: directories with the *layers* of its image, topmost first.

    *left* says why the hook of `hugealign enable --all` does not cover them, None if it does.
    """

    layers: tuple[str, ...]
    left: Diagnosis | None = None


def origin(pid: int) -> Origin | None:
    """Return where the files of the container of *pid* come from; None for one that has our root.  Raises OSError."""
    device = os.stat(f"{procfs.PROC}/{pid}/root").st_dev
    if device == os.stat("/").st_dev:
        return None
    layers = [os.path.realpath(layer) for layer in mounts.layers(device, image=True)]
    return Origin(tuple(layers), _uncovered(pid))


def _uncovered(pid: int) -> Diagnosis | None:
    """Return why the hook of `hugealign enable --all` does not cover files in the container of *pid*.

    What the container itself says of that is not heard: its engine is a process of ours.
    """
    text = groups.of_process(pid)
    engine = _engine(pid)
    if not engine and groups.of_user(text):
        return Diagnosis("container.rootless", "", {})
    own_mounts = os.stat(f"{procfs.PROC}/self/ns/mnt")
    is_ours = engine and os.path.samestat(os.stat(f"{procfs.PROC}/{engine}/ns/mnt"), own_mounts)
    bundle = _bundle(engine, groups.container_id(text)) if is_ours else ""
    if bundle and processes.comm(engine).startswith(_CONMON):
        with suppress(FileError):
            configuration = hooks.parsed(os.path.join(bundle, "config.json"))
            if not hooks.annotated(configuration):
                return None if hooks.can_be_covered(configuration) else Diagnosis("policy.may-replace", "", {})
    facts = {"engine": name} if (name := groups.engine(text)) else {}
    return Diagnosis("policy.container", "", facts)


def _engine(pid: int) -> int:
    """Return our engine's process beside the container of *pid*, 0 if there is none.  Raises OSError."""
    engine = pid
    for _ in range(_MOST_PARENTS):
        engine = procfs.stat(f"{procfs.PROC}/{engine}/stat").parent
        if engine <= 1 or _is_engine(engine):
            return engine if engine > 1 else 0
    return 0


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
