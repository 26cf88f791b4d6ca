"""What the ``HUGEALIGN_*`` variables ask of a link.

No other configuration is read: a file found by search would make builds depend on where they run.
"""

from hugealign.errors import UsageError
from hugealign.units import parse_page_size, parse_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

CHECK_MODES = ("off", "warn", "error")


class Settings:
    """The settings of one link.  Sizes in bytes; *only* and *skip* are tuples of globs of output names.

    *profile* is the path of an order file, empty without one.  With *order_objects* its functions bring along the
    objects that they lie in, where they have no section of their own.
    """

    __slots__ = ("check", "debug", "min_text", "only", "order_objects", "pad_threshold", "page_size", "profile", "skip")

    def __init__(
        self,
        page_size: int = 2 << 20,
        min_text: int = 256 << 10,
        pad_threshold: int = 4 << 10,
        check: str = "warn",
        only: tuple[str, ...] = (),
        skip: tuple[str, ...] = (),
        debug: bool = False,
        profile: str = "",
        order_objects: bool = False,
    ) -> None:
        self.page_size = page_size
        self.min_text = min_text
        self.pad_threshold = pad_threshold
        self.check = check
        self.only = only
        self.skip = skip
        self.debug = debug
        self.profile = profile
        self.order_objects = order_objects

    def with_page_size(self, page_size: int) -> "Settings":
        """Return the same settings for windows of *page_size* bytes."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return Settings(**fields | {"page_size": page_size})


def from_environ(environ: "Mapping[str, str]") -> Settings:
    """Return the settings in *environ*; an empty variable counts as unset.  Raises UsageError."""
    settings = Settings()
    if text := environ.get("HUGEALIGN_PAGE_SIZE"):
        settings.page_size = parse_page_size(text, "HUGEALIGN_PAGE_SIZE")
    if text := environ.get("HUGEALIGN_MIN_TEXT"):
        settings.min_text = parse_size(text, "HUGEALIGN_MIN_TEXT")
    if text := environ.get("HUGEALIGN_PAD_THRESHOLD"):
        settings.pad_threshold = parse_size(text, "HUGEALIGN_PAD_THRESHOLD")
    if text := environ.get("HUGEALIGN_CHECK"):
        if text not in CHECK_MODES:
            raise UsageError("HUGEALIGN_CHECK: not one of off, warn, error")
        settings.check = text
    settings.only = _globs(environ.get("HUGEALIGN_ONLY", ""))
    settings.skip = _globs(environ.get("HUGEALIGN_SKIP", ""))
    settings.profile = environ.get("HUGEALIGN_PROFILE", "")
    settings.order_objects = _boolean(environ, "HUGEALIGN_ORDER_OBJECTS")
    settings.debug = _boolean(environ, "HUGEALIGN_DEBUG")
    return settings


def _globs(text: str) -> tuple[str, ...]:
    return tuple(glob for glob in text.split(":") if glob)


def _boolean(environ: "Mapping[str, str]", name: str) -> bool:
    text = environ.get(name, "")
    if text not in ("", "0", "1"):
        raise UsageError(f"{name}: not 0 or 1")
    return text == "1"
