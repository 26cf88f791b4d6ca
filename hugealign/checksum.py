"""SHA-256 of little data without OpenSSL, which takes longer to load than a link has for the order of a profile."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hashlib import _Hash

LONG = 1 << 20  # bytes for which OpenSSL's SHA-256, four times as fast, makes up for being loaded


def sha256(data: bytes) -> "_Hash":
    """Return the SHA-256 of *data*, as `hashlib` does."""
    if len(data) <= LONG:
        for module in ("_sha2", "_sha256"):  # of Python 3.12, and before; hashlib would load OpenSSL first
            try:
                found: _Hash = __import__(module).sha256(data)
            except ImportError:
                continue
            return found
    import hashlib

    return hashlib.sha256(data)
