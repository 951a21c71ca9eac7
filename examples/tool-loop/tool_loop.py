#!/usr/bin/env python3
"""The Memory tool in a loop of tool calls with OpenAI's Responses API.

    pip install openai ./clients/python
    python3 examples/tool-loop/tool_loop.py                                  # with a stand-in for the model
    python3 examples/tool-loop/tool_loop.py "Remember that I like coffee"    # needs OPENAI_API_KEY

The command `memory` must be on the path. The store is the one of `memory config`; MEMORY_URL names another.
"""

import http.server
import json
import sys
import threading

from memory_client.tools import Tools
from openai import OpenAI


def converse(client, words):
    turns = [{"role": "user", "content": words}]
    with Tools("--agent", "ann", "--user", "ada") as memory:
        while True:
            answer = client.responses.create(model="gpt-6.2-sol", input=turns, tools=memory.schemas("openai"))
            turns += answer.output
            calls = [item for item in answer.output if item.type == "function_call"]
            if not calls:
                return answer.output_text
            for call in calls:
                output = memory.call(call.name, call.arguments).text
                turns.append({"type": "function_call_output", "call_id": call.call_id, "output": output})


class StandIn(http.server.BaseHTTPRequestHandler):
    """A model that stores a value, reads it again, and says what it read."""

    CALLS = [{"op": "set", "key": "drinks", "value": "coffee"}, {"op": "get", "key": "drinks"}]

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answers = [turn["output"] for turn in request["input"] if turn.get("type") == "function_call_output"]
        if len(answers) < len(self.CALLS):
            # In strict mode every field is there, and `null` is one that is left out.
            fields = dict.fromkeys(request["tools"][0]["parameters"]["properties"])
            arguments = json.dumps({**fields, **self.CALLS[len(answers)]})
            number = f"call_{len(answers)}"
            said = {"type": "function_call", "id": number, "call_id": number, "name": "memory", "arguments": arguments}
        else:
            text = f"I remember {json.loads(answers[-1])['value']}."
            content = [{"type": "output_text", "text": text, "annotations": []}]
            said = {"type": "message", "id": "msg", "role": "assistant", "status": "completed", "content": content}
        body = json.dumps({"id": "resp", "object": "response", "created_at": 0, "model": "stand-in", "output": [said]})
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(converse(OpenAI(), sys.argv[1]))
    else:
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), StandIn) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            client = OpenAI(base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="none")
            print(converse(client, "Remember that I like coffee"))
            server.shutdown()
