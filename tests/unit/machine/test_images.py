"""Files of containers by their paths in the layers of images; what a container does with names leads nowhere else."""

import os
from collections import Counter
from pathlib import Path

import pytest

from hugealign.machine.images import is_closed, on_machine
from hugealign.process.containers import Origin
from hugealign.process.machine_samples import CONTAINER, MachineSamples, Use

ONE = f"{CONTAINER}0123456789ab"


@pytest.fixture
def layers(tmp_path: Path) -> list[Path]:
    """Two layers, the upper one first."""
    result = [tmp_path / "upper", tmp_path / "lower"]
    for layer in result:
        (layer / "bin").mkdir(parents=True)
        (layer / "bin/both").write_text("")
    (result[1] / "bin/low").write_text("")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/tool").write_text("")
    (result[0] / "out").symlink_to(tmp_path / "outside")
    (result[0] / "bin/link").symlink_to("both")
    return result


def looked(layers: list[Path], files: dict[str, int], owner: str = ONE, covered: tuple[str, ...] = ()) -> Use:
    """Return the use of /bin/low, with a page fault in each of *files*."""
    use = Use("/bin/low", owner, files=files, faults=Counter({(path, 1): 2 for path in files}))
    samples = MachineSamples((use,), 1.0, 0, {ONE: Origin(tuple(map(str, layers)))})
    (result,) = on_machine(samples, covered).uses
    return result


def test_the_topmost_layer_that_has_the_name(layers: list[Path]) -> None:
    both = (layers[0] / "bin/both").stat().st_ino
    low = layers[1] / "bin/low"
    use = looked(layers, {"/bin/both": both, "/bin/low": low.stat().st_ino})
    assert use.files == {f"{layers[0]}/bin/both": both, str(low): low.stat().st_ino}
    assert (use.program, use.faults[str(low), 1]) == (str(low), 2)


def test_another_file_is_none_of_the_image(layers: list[Path]) -> None:
    """One of a volume, or that the container has changed; or one that a link leads to."""
    hidden, outside = (layers[1] / "bin/both").stat().st_ino, (layers[0] / "out/tool").stat().st_ino
    linked = (layers[0] / "bin/both").stat().st_ino
    names = {
        "/bin/both": hidden,
        "/out/tool": outside,
        "/bin/link": linked,
        "/bin/none": 1,
        "/../outside/tool": outside,
    }
    use = looked(layers, names)
    assert use.files == {}
    assert use.faults["/bin/both", 1] == 2  # what it costs still counts


def test_of_a_container_that_was_not_understood_no_name_is_heard(layers: list[Path]) -> None:
    names = {"/bin/low": (layers[1] / "bin/low").stat().st_ino}
    assert looked(layers, names, owner=f"{CONTAINER}ba9876543210").files == {}
    assert looked(layers, names, owner="x.service").files == names


def test_what_the_hook_covers_counts_as_used(layers: list[Path]) -> None:
    low = str(layers[1] / "bin/low")
    assert looked(layers, {"/bin/low": 1}, covered=(low,)).files == {low: 1}
    assert looked(layers, {"/bin/low": 1}, covered=("/bin/low",)).files == {}


def test_who_may_replace_a_file(layers: list[Path]) -> None:
    """What the topmost layer says of the directory counts: a later line of a Dockerfile may have given it away."""
    names = [str(layer) for layer in layers]
    low = str(layers[1] / "bin/low")
    assert is_closed(names, low)
    (layers[0] / "bin").chmod(0o777)
    assert not is_closed(names, low)
    assert is_closed(names[1:], low)
    (layers[0] / "bin").chmod(0o755)
    if not os.geteuid():
        os.chown(layers[0] / "bin", 65534, 65534)
        assert not is_closed(names, low)
    assert not is_closed(names, "/bin/low")
    assert not is_closed([], low)
