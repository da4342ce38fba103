"""Settings of a schema registry; a value, so that it can be sent to the workers."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

PREFIX = "registry."


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """A registry and how to log in to it. May hold secrets: never logged.

    Attributes:
        url: `http://` or `https://`, or several separated by commas; the first that answers counts.
        username: For HTTP basic authentication, with `password`.
        token: For bearer authentication.
        ca_file: PEM file of trusted authorities, instead of the system's.
        certificate_file: PEM file of the client's own certificate, with `key_file`.
        unknown_wait_ms: How long to wait for an id that the registry does not know, in ms.
    """

    url: str
    username: str = ""
    password: str = ""
    token: str = ""
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    unknown_wait_ms: str = "30000"

    def __repr__(self) -> str:
        return f"RegistrySettings({self.url!r})"

    @property
    def urls(self) -> tuple[str, ...]:
        """Base addresses without a slash at the end."""
        return tuple(one.strip().rstrip("/") for one in self.url.split(","))

    def options(self) -> dict[str, str]:
        """The settings as options of a format; empty ones are left out."""
        found = {field.name: str(getattr(self, field.name)) for field in fields(self)}
        return {f"{PREFIX}{name}": value for name, value in found.items() if value}


def registry_settings(options: Mapping[str, str]) -> RegistrySettings:
    """The settings among a format's options, as `RegistrySettings.options` made them.

    Raises:
        ValueError: An option is unknown, or there is no address.
    """
    known = {field.name for field in fields(RegistrySettings)}
    given = {
        name.removeprefix(PREFIX): value
        for name, value in options.items()
        if name.startswith(PREFIX)
    }
    if unknown := sorted(given.keys() - known):
        raise ValueError(f"a schema registry has no option {unknown[0]}")
    if not given.get("url"):
        raise ValueError("a schema registry needs its url")
    return RegistrySettings(**given)
