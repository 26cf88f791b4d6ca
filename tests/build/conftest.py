from tests.build.plugins import built, cache, newest
from tests.link.conftest import bulk

__all__ = ["built", "bulk", "cache", "newest"]
