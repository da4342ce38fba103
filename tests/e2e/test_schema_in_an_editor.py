"""The schema in a real YAML language server; `make proofs NAME=test-editor` installs one."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sluiceway.cli.app import run_command

SERVER = os.environ.get("SLUICEWAY_YAML_SERVER", "")
pytestmark = pytest.mark.skipif(not SERVER, reason="SLUICEWAY_YAML_SERVER names no language server")
EXAMPLE = (Path(__file__).parents[2] / "examples/orders.yaml").read_text("utf-8")


class Editor:
    """Speaks the language server protocol over pipes, as an editor with one open file."""

    def __init__(self, process: subprocess.Popen[bytes], schema: Path, folder: Path) -> None:
        self._process = process
        self._schema = schema
        self._numbers = 0
        self._version = 0
        self._uri = (folder / "job.yaml").as_uri()
        self._diagnostics: list[Any] | None = None
        self.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
        self._send({"method": "initialized", "params": {}})
        settings = {"yaml": {"schemas": {schema.as_uri(): "*.yaml"}, "hover": True}}
        settings["yaml"] |= {"completion": True, "validate": True}
        self._settings = settings
        self._send({"method": "workspace/didChangeConfiguration", "params": {"settings": settings}})

    def show(self, text: str) -> list[str]:
        """Open or change the file; messages of what is wrong."""
        self._version += 1
        self._diagnostics = None
        document: dict[str, Any] = {"uri": self._uri, "version": self._version}
        if self._version == 1:
            document |= {"languageId": "yaml", "text": text}
            self._send({"method": "textDocument/didOpen", "params": {"textDocument": document}})
        else:
            params = {"textDocument": document, "contentChanges": [{"text": text}]}
            self._send({"method": "textDocument/didChange", "params": params})
        while self._diagnostics is None:
            self._take(self._read())
        return [each["message"] for each in self._diagnostics]

    def at(self, method: str, text: str, mark: str, beyond: int = 0) -> Any:
        """Ask about the place behind the beginning of `mark`."""
        before = text[: text.index(mark) + beyond]
        line, column = before.count("\n"), len(before) - before.rfind("\n") - 1
        place = {"line": line, "character": column}
        return self.ask(method, {"textDocument": {"uri": self._uri}, "position": place})

    def ask(self, method: str, params: Any) -> Any:
        self._numbers += 1
        number = self._numbers
        self._send({"id": number, "method": method, "params": params})
        while True:
            message = self._read()
            if message.get("id") == number and "method" not in message:
                assert "error" not in message, message
                return message["result"]
            self._take(message)

    def _take(self, message: Any) -> None:
        if message.get("method") == "textDocument/publishDiagnostics":
            self._diagnostics = message["params"]["diagnostics"]
        elif message.get("method") == "workspace/configuration":
            items = message["params"]["items"]
            found = [self._settings.get(each.get("section")) for each in items]
            self._send({"id": message["id"], "result": found})
        elif "id" in message and "method" in message:
            self._send({"id": message["id"], "result": None})

    def _send(self, message: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        pipe = self._process.stdin
        assert pipe is not None
        pipe.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        pipe.flush()

    def _read(self) -> Any:
        pipe = self._process.stdout
        assert pipe is not None
        length = 0
        while line := pipe.readline().strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        assert length, "the language server has ended"
        return json.loads(pipe.read(length))


@pytest.fixture
def editor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Editor]:
    assert run_command(["schema"]) == 0
    schema = tmp_path / "job.schema.json"
    schema.write_text(capsys.readouterr().out)
    with subprocess.Popen(
        [SERVER, "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path
    ) as process:
        try:
            yield Editor(process, schema, tmp_path)
        finally:
            process.kill()


def labels(found: Any) -> set[str]:
    items = found["items"] if isinstance(found, dict) else found
    return {each["label"] for each in items}


def test_editor_completes_explains_and_underlines_by_the_schema(editor: Editor) -> None:
    assert editor.show(EXAMPLE) == []
    hover = editor.at("textDocument/hover", EXAMPLE, "event_time: {field", 2)
    assert "Event time of a row." in json.dumps(hover)
    hover = editor.at("textDocument/hover", EXAMPLE, "interval: 2s", 2)
    assert "Length of an epoch" in json.dumps(hover)
    wrong = EXAMPLE.replace("run: {interval: 2s}", "run: {intervall: 2s}")
    assert any("intervall" in message for message in editor.show(wrong))
    open_text = EXAMPLE.replace("run: {interval: 2s}", "run:\n  \nfiles:\n  compact: \n")
    editor.show(open_text)
    keys = labels(editor.at("textDocument/completion", open_text, "\n  \nfiles", 3))
    assert {"interval", "memory_per_task", "spark_conf"} <= keys
    words = labels(editor.at("textDocument/completion", open_text, "compact: \n", 9))
    assert {"before_ready", "never"} <= words
