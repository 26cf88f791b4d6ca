"""Which file a service sees at a path, with directories of these tests as its root and its mounts."""

from pathlib import Path

import pytest

from hugealign.diagnosis.refusal import RefusalError
from hugealign.services import view as views
from hugealign.services.view import Found, View

OWN = "/run/hugealign"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A root with /usr/bin/server, by links of several kinds; and a directory beside it."""
    root = tmp_path / "root"
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/server").touch()
    (root / "bin").symlink_to("usr/bin")
    (root / "absolute").symlink_to("/usr/bin/server")
    (root / "above").symlink_to("../../../../usr/bin/server")
    (root / "loop").symlink_to("loop")
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside/server").touch()
    return tmp_path


@pytest.mark.parametrize("name", ["/usr/bin/server", "/bin/server", "/absolute", "/above", "//usr/./bin/../bin/server"])
def test_links_stay_below_the_root(tree: Path, name: str) -> None:
    found = View({"RootDirectory": f"{tree}/root"}, OWN).find(name)
    assert found == Found(f"{tree}/root/usr/bin/server", "/usr/bin/server")


def test_what_is_missing_or_leads_nowhere(tree: Path) -> None:
    view = View({"RootDirectory": f"{tree}/root"}, OWN)
    for name in ("/usr/bin/other", "/loop", "/usr/bin/server/x"):
        with pytest.raises(OSError, match="Errno"):
            view.find(name)


@pytest.mark.parametrize(
    ("settings", "name", "source", "target"),
    [
        ({"BindPaths": "{beside}:/usr/bin"}, "/bin/server", "{beside}/server", "/usr/bin/server"),
        ({"BindReadOnlyPaths": "-{beside}:/bin:rbind"}, "/bin/server", "{beside}/server", "/usr/bin/server"),
        ({"BindPaths": "/run/hugealign/x:/usr/bin/server"}, "/bin/server", "{root}/usr/bin/server", "/usr/bin/server"),
        (
            {"TemporaryFileSystem": "/usr:ro", "BindPaths": "{beside}:/usr/bin"},
            "/usr/bin/server",
            "{beside}/server",
            "/usr/bin/server",
        ),
        (
            {"BindReadOnlyPaths": "-/run/hugealign/for/x/srv/a b/100% c:/a b/100% c:rbind {beside}:/usr/bin:rbind"},
            "/bin/server",
            "{beside}/server",
            "/usr/bin/server",
        ),
        ({"ReadOnlyPaths": "/usr"}, "/usr/bin/server", "{root}/usr/bin/server", "/usr/bin/server"),
    ],
)
def test_through_the_mounts_of_the_unit(
    tree: Path, settings: dict[str, str], name: str, source: str, target: str
) -> None:
    names = {"beside": f"{tree}/beside", "root": f"{tree}/root"}
    values = {key: value.format(**names) for key, value in settings.items()}
    found = View({"RootDirectory": f"{tree}/root", **values}, OWN).find(name)
    assert found == Found(source.format(**names), target)


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"RootImage": "/srv/image.raw"}, "service.image"),
        ({"ExtensionDirectories": "/srv/more"}, "service.image"),
        ({"RootEphemeral": "yes"}, "service.image"),
        ({"BindPaths": "relative"}, "service.mounts-unread"),
        ({"BindPaths": "/a b:/c"}, "service.mounts-unread"),
        ({"TemporaryFileSystem": "/usr"}, "service.own-mount"),
        ({"InaccessiblePaths": "-/usr/bin"}, "service.own-mount"),
    ],
)
def test_what_cannot_be_told_is_refused(tree: Path, settings: dict[str, str], code: str) -> None:
    with pytest.raises(RefusalError) as refusal:
        View({"RootDirectory": f"{tree}/root", **settings}, OWN).find("/usr/bin/server")
    assert refusal.value.diagnosis.code == code


@pytest.mark.parametrize(
    ("setting", "value"), [("BindPaths", "{beside}/server:/bin/server"), ("ReadOnlyPaths", "/usr/bin/server")]
)
def test_a_mount_exactly_there_is_named(tree: Path, setting: str, value: str) -> None:
    view = View({"RootDirectory": f"{tree}/root", setting: value.format(beside=tree / "beside")}, OWN)
    assert view.covered(view.find("/usr/bin/server")) == setting
    assert not view.covered(view.find("/usr"))


def test_a_name_that_leads_there_also_outside(tree: Path) -> None:
    (tree / "link").symlink_to("beside/server")
    view = View({}, OWN)
    assert view.shows(f"{tree}/link", view.find(f"{tree}/link"))
    assert not view.shows(f"{tree}/beside/../link", view.find(f"{tree}/beside/../link"))
    rooted = View({"RootDirectory": f"{tree}/root"}, OWN)
    assert not rooted.shows("/usr/bin/server", rooted.find("/usr/bin/server"))


@pytest.mark.parametrize("value", ["", "no", "false", "off", "0", "[not set]", "No"])
def test_an_image_that_is_none(value: str) -> None:
    assert View({"RootImage": value}, OWN).find("/").source == "/"


@pytest.mark.parametrize(
    ("settings", "hidden", "seen"),
    [
        ({"ProtectHome": "yes"}, ["/home", "/root/x", "/run/user/0"], ["/", "/usr"]),
        ({"ProtectHome": "Tmpfs"}, ["/home"], ["/usr"]),
        ({"ProtectHome": "read-only"}, [], ["/", "/usr"]),
        ({"PrivateTmp": "yes"}, ["/tmp/x", "/var/tmp"], ["/usr"]),
        ({"PrivateTmp": "disconnected"}, ["/tmp"], ["/usr"]),
        ({"PrivateTmp": "no"}, [], ["/tmp"]),
        ({"InaccessiblePaths": "-/usr/none +/opt"}, ["/opt", "/opt/x"], ["/usr"]),
        ({"NoExecPaths": "/opt", "ReadWritePaths": "/usr", "TemporaryFileSystem": "relative"}, [], ["/usr"]),
    ],
)
def test_what_a_setting_hides(tree: Path, settings: dict[str, str], hidden: list[str], seen: list[str]) -> None:
    for directory in (
        "home",
        "root/root/x",
        "root/run/user/0",
        "root/tmp/x",
        "root/var/tmp",
        "root/opt/x",
        "root/home",
    ):
        (tree / directory).mkdir(parents=True, exist_ok=True)
    view = View({"RootDirectory": f"{tree}/root", **settings}, OWN)
    for path in hidden:
        with pytest.raises(RefusalError) as refusal:
            view.find(path)
        assert refusal.value.diagnosis.facts["setting"] in settings
    for path in seen:
        assert view.find(path).target == path


@pytest.mark.parametrize(("count", "found"), [(40, True), (41, False)])
def test_as_many_links_as_the_kernel_follows(tree: Path, count: int, found: bool) -> None:
    """MAXSYMLINKS; one of them here is that of the last name."""
    (tree / "root/0").symlink_to("/usr/bin/server")
    for number in range(1, count):
        (tree / f"root/{number}").symlink_to(f"{number - 1}")
    view = View({"RootDirectory": f"-{tree}/root"}, OWN)
    if found:
        assert view.find(f"/{count - 1}").target == "/usr/bin/server"
    else:
        with pytest.raises(OSError, match="symbolic links"):
            view.find(f"/{count - 1}")


@pytest.mark.parametrize(
    ("words", "binds"),
    [
        ("", False),
        ("/a", True),
        ("/a:/b", True),
        ("-/a::rbind", True),
        (f"{OWN}/x:/usr/bin/x", False),
        (f"{OWN}x:/usr/bin/x", True),
        (f"-{OWN}/for/a.service/usr/bin/x:/usr/bin/x", False),
        (f"-{OWN}/for/a.service/usr/bin/x:/usr/bin/x:norbind /c", True),
    ],
)
def test_what_a_unit_binds(words: str, binds: bool) -> None:
    assert views.binds({"BindReadOnlyPaths": words}, OWN) == binds
    assert not views.binds({"ReadOnlyPaths": "/usr", "ProtectHome": "yes"}, OWN)


@pytest.mark.parametrize("word", ["/a:/b:rbind:x", "a:/b", ":/b"])
def test_a_bind_that_cannot_be_read(word: str) -> None:
    with pytest.raises(RefusalError) as refusal:
        View({"BindPaths": f"/x:/y {word}"}, OWN)
    assert refusal.value.diagnosis.facts == {"setting": "BindPaths", "value": word}


def test_a_mount_below_what_is_hidden(tree: Path) -> None:
    """The directory that it is in is one there, whatever it was."""
    (tree / "root/opt").symlink_to("/usr")
    settings = {"RootDirectory": f"{tree}/root", "BindPaths": f"{tree}/beside:/opt/app/bin"}
    with pytest.raises(OSError, match="No such file"):
        View(settings, OWN).find("/opt/bin/server")
    found = View(settings, OWN).find("/opt/app/bin/server")
    assert found.source == f"{tree}/beside/server"
    settings["TemporaryFileSystem"] = "/opt"
    assert View(settings, OWN).find("/opt/app/bin/../bin/server").source == f"{tree}/beside/server"
    # What is not there is made there.
    assert View({"BindPaths": f"{tree}/beside:/none/x"}, OWN).find("/none/x/server").source == f"{tree}/beside/server"
