"""The step function of addresses, which is all that a separation changes."""

from hugealign.records import Record


class Step(Record):
    """Addresses from *start* on move by *delta* bytes.

    Those from *behind* to *start*, what the loader reads beside the program headers, move by *room*: 0, or enough for
    one more program header.
    """

    start: int
    delta: int
    behind: int = 0
    room: int = 0

    def distance(self, address: int) -> int:
        """Return by how much *address* moves."""
        return self.delta if address >= self.start else self.room if address >= self.behind else 0

    def __call__(self, address: int) -> int:
        """Return where *address* is afterwards."""
        return address + self.distance(address)
