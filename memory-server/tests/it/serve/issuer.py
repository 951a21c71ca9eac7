"""An OAuth issuer for tests, which says yes to everybody: its metadata, registration of clients, codes, JWTs and keys.

It needs the packages `cryptography` and `pyjwt`, which the package `mcp` brings.
"""

import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key


class Issuer(BaseHTTPRequestHandler):
    key = generate_private_key(SECP256R1())
    claims = {"tenant": "acme", "sub": "ann"}
    asked = []

    @classmethod
    def start(cls):
        """The URL of a running one."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), cls)
        cls.url = f"http://127.0.0.1:{server.server_port}/id"
        Thread(target=server.serve_forever, daemon=True).start()
        return cls.url

    @classmethod
    def keys(cls):
        public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(cls.key.public_key()))
        return {"keys": [{**public, "kid": "one"}]}

    def answer(self, value, status=200):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        at = urlsplit(self.path)
        if at.path == "/.well-known/oauth-authorization-server/id":
            return self.answer({
                "issuer": self.url, "authorization_endpoint": f"{self.url}/authorize", "token_endpoint": f"{self.url}/token",
                "registration_endpoint": f"{self.url}/register", "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
            })
        if at.path == "/id/authorize":
            asked = {name: values[0] for name, values in parse_qs(at.query).items()}
            self.asked.append(asked["resource"])
            self.send_response(302)
            self.send_header("Location", asked["redirect_uri"] + "?" + urlencode({"code": "c", "state": asked["state"]}))
            self.send_header("Content-Length", "0")
            return self.end_headers()
        self.answer({}, 404)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/id/register":
            return self.answer({**json.loads(body), "client_id": "client"}, 201)
        resource = parse_qs(body.decode())["resource"][0]
        claims = {**self.claims, "iss": self.url, "aud": resource, "exp": int(time.time()) + 600}
        token = jwt.encode(claims, self.key, "ES256", {"kid": "one"})
        self.answer({"access_token": token, "token_type": "Bearer", "expires_in": 600})

    def log_message(self, *_):
        pass
