"""A lab with RocketMQ, for the tests of this folder alone."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluiceway.lab.lab import Lab, StoreServer
from sluiceway.lab.rocketmq import RocketMqEndpoint
from tools.lab_fixture import SHARED_LAB, running_lab


@pytest.fixture(scope="session")
def rocketmq_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    shared = os.environ.get(SHARED_LAB)
    if shared and Lab(Path(shared)).endpoints().rocketmq is not None:
        yield Lab(Path(shared))
        return
    folder = tmp_path_factory.mktemp("lab") / "lab"
    with running_lab(folder, stores=[StoreServer.ROCKETMQ]) as lab:
        yield lab


@pytest.fixture(scope="session")
def rocketmq(rocketmq_lab: Lab) -> RocketMqEndpoint:
    found = rocketmq_lab.endpoints().rocketmq
    assert found is not None
    return found
