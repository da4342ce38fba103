"""Fixtures of all test folders; servers start only when a test asks for one."""

pytest_plugins = ["tools.lab_fixture"]
