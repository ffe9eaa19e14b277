"""The answer to a request that is understood, but not granted."""


class RefusalError(Exception):
    """An HTTP status and a message for the client; 200 is a GraphQL error in a good answer."""

    def __init__(self, message: str, *, status: int = 200) -> None:
        super().__init__(message)
        self.status = status
