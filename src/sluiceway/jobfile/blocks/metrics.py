"""Block `metrics`: where metrics are served, and how many values their labels may have."""

from ipaddress import ip_address
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from sluiceway.jobfile.blocks.block import Block
from sluiceway.jobfile.blocks.values import Secret, wrong

LOOPBACK = "127.0.0.1"
_LEAST_TOKEN = 16


def _check_address(text: str) -> str:
    try:
        return str(ip_address(text))
    except ValueError as error:
        raise wrong(
            "an IP address of this machine such as `127.0.0.1` or `0.0.0.0`", "write one, as text"
        ) from error


def _check_token(token: Secret) -> Secret:
    text = token.reveal()
    if len(text) < _LEAST_TOKEN or not text.isascii() or not text.isprintable() or " " in text:
        raise wrong(
            f"{_LEAST_TOKEN} or more printable ASCII characters without spaces",
            "make one with `openssl rand -hex 32`",
        )
    return token


def _bound(least: int, most: int) -> AfterValidator:
    def check(value: int) -> int:
        if not least <= value <= most:
            raise wrong(f"a number from {least} to {most}", "choose one between them")
        return value

    return AfterValidator(check)


class MetricsSpec(Block):
    """How metrics are served.

    Attributes:
        address: IP address on which `/metrics` and the health endpoints listen.
        token: Bearer token that each request must have; None asks for none.
        max_routes: Largest number of routes with series of their own.
        max_topics: Largest number of topics per route with series of their own.
        max_partitions: Largest number of source partitions per route with series of their own; the
            slowest ones.
    """

    address: Annotated[str, AfterValidator(_check_address)] = LOOPBACK
    token: Annotated[Secret, AfterValidator(_check_token)] | None = None
    max_routes: Annotated[int, _bound(1, 10_000)] = Field(default=500)
    max_topics: Annotated[int, _bound(1, 10_000)] = Field(default=100)
    max_partitions: Annotated[int, _bound(0, 1000)] = Field(default=20)

    @model_validator(mode="after")
    def _keep_strangers_out(self) -> Self:
        if not ip_address(self.address).is_loopback and self.token is None:
            raise wrong(
                "a token with an address that others can reach",
                'add `token: "${env:NAME}"`, or leave the address at 127.0.0.1',
            )
        return self
