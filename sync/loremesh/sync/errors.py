"""Whose fault it is: two roots, and each message names the field, the value and the bound."""


class InvalidInput(ValueError):
    """The caller of this node handed in something out of bounds."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field} {reason}")
        self.field = field
        self.reason = reason


class Malformed(Exception):
    """Bytes from elsewhere break the protocol. The funnel turns it into a `Rejected`; nothing else is raised
    for what a peer sends."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field} {reason}")
        self.field = field
        self.reason = reason
