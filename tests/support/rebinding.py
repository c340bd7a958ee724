"""Names that turn, in a network of our own: `unshare -rn python -m tests.support.rebinding` prints what came of each.

The network has no way out. Addresses of the public internet stand on its loopback device, where a site listens on them;
on 127.0.0.1 and ::1 listens what no page must reach. A resolver of ours gives each name a public address at the first
look and a private one at the next.
"""

from __future__ import annotations

import json
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET6

from ossia.tools.fetch.client import Fetcher
from ossia.tools.fetch.exchange import FetchFailed
from ossia.tools.spec import NoStop
from tests.support.site import Names

PORT = 8080
PUBLIC, OTHER, PUBLIC_V6 = "93.184.215.14", "93.184.215.15", "2606:4700::1111"
DEAD, DEAD_V6 = "93.184.215.99", "2606:4700::9999"
NAMES = {
    "first.test": [[PUBLIC], ["127.0.0.1"]],
    "v6.test": [[PUBLIC_V6], ["::1"]],
    "mapped.test": [[f"::ffff:{PUBLIC}"], ["::ffff:127.0.0.1"]],
    "several.test": [[DEAD_V6, DEAD, OTHER], ["127.0.0.1"]],
    "one-private.test": [[PUBLIC, "127.0.0.1"]],
    "none-answers.test": [[DEAD_V6, DEAD], ["127.0.0.1"]],
    "breaks-off.test": [[PUBLIC], ["127.0.0.1"]],
    "to-itself.test": [[PUBLIC], ["127.0.0.1"]],
    "to-another.test": [[PUBLIC], ["127.0.0.1"]],
    "another.test": [[OTHER], ["127.0.0.1"]],
}
PATHS = {"to-itself.test": "/to-itself", "to-another.test": "/to-another", "breaks-off.test": "/breaks-off"}


class _Handler(BaseHTTPRequestHandler):
    """Says at which address it was asked."""

    def do_GET(self) -> None:
        if self.path == "/breaks-off":
            return
        leads = {"/to-itself": "/", "/to-another": f"http://another.test:{PORT}/"}.get(self.path)
        told = self.connection.getsockname()[0].encode()
        self.send_response(302 if leads else 200)
        if leads:
            self.send_header("Location", leads)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, format: str, *args: object) -> None:
        """Not on stderr."""


class _ServerV6(ThreadingHTTPServer):
    address_family = AF_INET6


def main() -> None:
    """For each name: what two fetches gave, and how often it was looked up; and whether anything private was asked."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for address in (f"{PUBLIC}/32", f"{OTHER}/32", f"{PUBLIC_V6}/128"):
        subprocess.run(["ip", "addr", "add", address, "dev", "lo", *(["nodad"] if ":" in address else [])], check=True)
    reached: list[str] = []

    class Private(_Handler):
        def do_GET(self) -> None:
            reached.append(self.path)
            super().do_GET()

    for address, handler in {PUBLIC: _Handler, OTHER: _Handler, PUBLIC_V6: _Handler, "127.0.0.1": Private,
                             "::1": Private}.items():  # fmt: skip
        server = (_ServerV6 if ":" in address else ThreadingHTTPServer)((address, PORT), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    names = Names(NAMES)
    fetcher = Fetcher(resolver=names)
    told = {}
    for name in NAMES:
        results = [_fetched(fetcher, f"http://{name}:{PORT}{PATHS.get(name, '/')}") for _ in range(2)]
        told[name] = [*results, names.asked.count((name, PORT))]
    print(json.dumps({"told": told, "reached": reached}))


def _fetched(fetcher: Fetcher, url: str) -> str:
    try:
        return fetcher.fetch(url, stop=NoStop()).body.decode()
    except FetchFailed as failure:
        return failure.reason


if __name__ == "__main__":
    main()
