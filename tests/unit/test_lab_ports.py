import socket

from sluiceway.lab.support import LOOPBACK, is_free, pick_free_ports


def test_pick_free_ports_gives_different_ones_that_can_be_bound() -> None:
    ports = pick_free_ports(5)
    assert len(set(ports)) == 5
    for port in ports:
        with socket.create_server((LOOPBACK, port)) as server:
            assert server.getsockname()[1] == port


def test_pick_free_ports_of_none_is_empty() -> None:
    assert pick_free_ports(0) == []


def test_is_free_port_with_listener_is_not() -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
        assert is_free(port) is False
    assert is_free(port) is True
