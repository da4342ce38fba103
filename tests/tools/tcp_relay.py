"""Hands TCP connections on: `python -m tools.tcp_relay HOST PORT TO_HOST TO_PORT`, until ended.

A process of its own, since it may live in a network namespace where its starter does not.
"""

import asyncio
import sys

_CHUNK = 1 << 16


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        while chunk := await source.read(_CHUNK):
            target.write(chunk)
            await target.drain()
    except ConnectionError:
        return
    finally:
        target.close()


async def _relay(host: str, port: int, to_host: str, to_port: int) -> None:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answers, asks = await asyncio.open_connection(to_host, to_port)
        except OSError:
            # A peer without an answer: its connection ends, as one that is refused.
            writer.close()
            return
        await asyncio.gather(_pump(reader, asks), _pump(answers, writer))

    server = await asyncio.start_server(accept, host, port)
    print("listening", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    _, _host, _port, _to_host, _to_port = sys.argv
    asyncio.run(_relay(_host, int(_port), _to_host, int(_to_port)))
