"""Numbers of things as people read them."""


def counted(number: int, one: str) -> str:
    """`1 file`, `2,000 files`.

    Args:
        number: How many there are.
        one: The word for one of them, which takes an s for several.
    """
    return f"1 {one}" if number == 1 else f"{number:,} {one}s"
