"""SHA-256 of small data without OpenSSL, which takes longer to load than a link may spend on the order of a profile."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hashlib import _Hash

LONG = 1 << 20  # bytes from which OpenSSL's SHA-256, four times as fast, is worth loading


def sha256(data: bytes) -> "_Hash":
    """Return the SHA-256 of *data*, as `hashlib` does."""
    if len(data) <= LONG:
        for module in ("_sha2", "_sha256"):  # Python 3.12 and later, and before; hashlib would load OpenSSL first
            try:
                digest: _Hash = __import__(module).sha256(data)
            except ImportError:
                continue
            return digest
    import hashlib

    return hashlib.sha256(data)
