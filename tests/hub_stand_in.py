"""A server on this machine that answers the Hugging Face client as the hub does."""

import base64
import contextlib
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

REVISION = "0" * 40
TOKEN = "hf_stand_in"


class Hub:
    """Repositories in memory.

    Attributes:
        repositories: name -> path -> content.
        created: what the client asked for with each new repository.
    """

    def __init__(self):
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.created: list[dict] = []
        self.address = ""


@contextlib.contextmanager
def hub():
    """Serves a `Hub` on a free port while the block runs."""
    state = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_Handler,), {"hub": state}))
    state.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *arguments):
        """Says nothing."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = unquote(urlsplit(self.path).path)
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self._answer({"error": "Invalid credentials"}, 401)
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = "/".join(filter(None, (asked.get("organization"), asked["name"])))
            self.hub.created.append(asked)
            self.hub.repositories.setdefault(name, {})
            return self._answer({"url": f"{self.hub.address}/{name}", "name": name})
        if path == "/api/validate-yaml":
            return self._answer({"errors": [], "warnings": []})
        if path.endswith("/preupload/main"):
            files = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in json.loads(body)["files"]
            ]
            return self._answer({"files": files})
        if path.endswith("/commit/main"):
            name = path.removeprefix("/api/models/").removesuffix("/commit/main")
            for line in body.decode().splitlines():
                entry = json.loads(line)
                if entry["key"] == "file":
                    content = base64.b64decode(entry["value"]["content"])
                    self.hub.repositories[name][entry["value"]["path"]] = content
            url = f"{self.hub.address}/{name}/commit/{REVISION}"
            return self._answer({"commitUrl": url, "commitOid": REVISION, "success": True})
        return self._answer({"error": f"no such address: {path}"}, 404)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = unquote(urlsplit(self.path).path)
        if "/resolve/" in path:
            name, _, rest = path[1:].partition("/resolve/")
            file = rest.partition("/")[2]
            content = self.hub.repositories.get(name, {}).get(file)
            if content is not None:
                return self._send(content, 200, "application/octet-stream")
        elif path.startswith("/api/models/"):
            name, _, rest = path.removeprefix("/api/models/").partition("/revision/")
            name, _, tree = name.partition("/tree/")
            files = self.hub.repositories.get(name)
            if files is not None and tree:
                return self._answer(
                    [
                        {"type": "file", "path": file, "size": len(x), "oid": _digest(x)}
                        for file, x in files.items()
                    ]
                )
            if files is not None:
                siblings = [{"rfilename": file} for file in files]
                return self._answer({"id": name, "sha": REVISION, "siblings": siblings})
        return self._answer({"error": f"no such address: {path}"}, 404)

    def _answer(self, content, status=200):
        self._send(json.dumps(content).encode(), status, "application/json")

    def _send(self, content, status, kind):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", f'"{_digest(content)}"')
        self.send_header("X-Repo-Commit", REVISION)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _digest(content):
    return hashlib.sha1(content).hexdigest()
