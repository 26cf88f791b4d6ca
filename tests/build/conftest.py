from tests.link.conftest import bulk

__all__ = ["bulk"]
