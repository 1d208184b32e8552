"""The one error of this package."""


class MechanismError(Exception):
    """One sentence for the user: what is wrong, in the user's own names, and where it helps the mend."""


def shown(x, longest=60):
    """Text of a file or a user, for a sentence about it: short, on one line."""
    text = repr(x)
    return text if len(text) <= longest else text[: longest - 3] + "..."
