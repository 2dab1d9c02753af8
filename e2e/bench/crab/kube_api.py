#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""As much of a Kubernetes API server as a kube-proxy needs to serve one Service: it may list and watch objects that never change.

  kube_api.py PORT OBJECTS.json    serves on 127.0.0.1; OBJECTS.json is a list of whole objects
"""
import http.server
import json
import sys
import threading
import urllib.parse

# path -> kind of its objects
PATHS = {"/api/v1/nodes": ("v1", "Node"), "/api/v1/services": ("v1", "Service"),
         "/apis/discovery.k8s.io/v1/endpointslices": ("discovery.k8s.io/v1", "EndpointSlice"),
         "/apis/networking.k8s.io/v1/servicecidrs": ("networking.k8s.io/v1", "ServiceCIDR")}
INITIAL_END = {"k8s.io/initial-events-end": "true"}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    objects = []

    def log_message(self, *args):
        pass

    def answer(self, status, document):
        raw = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def event(self, kind, what):
        raw = json.dumps({"type": kind, "object": what}).encode() + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(raw), raw))
        self.wfile.flush()

    def watch(self, version, kind, items, initial):
        """A stream that tells what there is, when asked for it, and then nothing more."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for item in items if initial else ():
            self.event("ADDED", item)
        if initial:
            self.event("BOOKMARK", {"apiVersion": version, "kind": kind, "metadata": {"resourceVersion": "1", "annotations": INITIAL_END}})
        self.wfile.flush()
        threading.Event().wait()

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        for path, (version, kind) in PATHS.items():
            items = [o for o in self.objects if o["kind"] == kind]
            if url.path == path and query.get("watch") in ("true", "1"):
                return self.watch(version, kind, items, query.get("sendInitialEvents") == "true")
            if url.path == path:
                return self.answer(200, {"apiVersion": version, "kind": kind + "List", "metadata": {"resourceVersion": "1"}, "items": items})
            for item in items:
                if url.path == f"{path}/{item['metadata']['name']}":
                    return self.answer(200, item)
        return self.answer(404, {"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404})

    def do_POST(self):  # an Event: taken and forgotten
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer(201, body)


def main(argv):
    if len(argv) != 2:
        sys.exit(__doc__)
    Handler.objects = json.load(open(argv[1]))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(argv[0])), Handler)
    server.daemon_threads = True
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
