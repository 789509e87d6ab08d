"""The store's API: python server.py [PORT]"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlparse

PETS = {1: ("Bello", "dog"), 2: ("Minka", "cat"), 3: ("Rex", "dog")}


class Api(BaseHTTPRequestHandler):
    def do_GET(self):
        url = urlparse(self.path)
        query = parse_qs(url.query)
        kind, limit = query["kind"][0], int(query.get("limit", ["10"])[0])
        found = [{"id": id, "name": name} for id, (name, is_a) in PETS.items() if is_a == kind]
        self.reply({"pets": found[:limit]})

    def do_PUT(self):
        pet = int(self.path.split("/")[2])
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if pet in PETS:
            self.reply({"reserved": PETS[pet][0], **body})
        else:
            self.reply({"error": "There is no such pet."}, 404)

    def reply(self, body, status=200):
        if self.headers.get("X-Store-Key") != "store-key":
            status, body = 401, {"error": "Your key is wrong."}
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int((sys.argv + ["8080"])[1])), Api)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
