# A small server for the tests of odd places, in the forms in which inference servers speak
# HTTP and ZeroMQ:
#
#     python -c THIS FORM FOLDER [CERTIFICATE KEY]
#
# Forms: "threads" (blocking sockets), "asyncio", "zmq" (asyncio, and a second process behind
# ROUTER/DEALER and PUSH/PULL sockets, as an engine is), "hostile FIELD" (writes nonsense into
# the memory that it shares with the agent when it is asked for /corrupt). It leaves its port in
# FOLDER/port, answers POST with the same completion, however long the request, and /large with
# a megabyte. /stop ends it with status 7. What it prints is the same each time.
import asyncio, http.server, json, os, signal, ssl, sys

form, folder = sys.argv[1].split(), sys.argv[2]
context = None
if len(sys.argv) > 3:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[3], sys.argv[4])

COMPLETION = json.dumps({
    "id": "chatcmpl-1", "object": "chat.completion", "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "x"}}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}).encode()
LARGE = b"0123456789abcdef" * 65536


def listening(port):
    print("listening", flush=True)
    print("a warning of the server's own", file=sys.stderr, flush=True)
    with open(folder + "/port.new", "w") as f:
        f.write(str(port))
    os.rename(folder + "/port.new", folder + "/port")


def leave():
    print("bye", flush=True)
    os._exit(7)


def answer(path):
    if path == "/corrupt":
        corrupt(form[1])
    if path == "/pid":
        return str(os.getpid()).encode()
    return LARGE if path == "/large" else COMPLETION


# What is written where, by the layout of probes/preload/shim/ring.h. Offsets are of the file.
def corrupt(field):
    import mmap
    fd = os.open(os.environ["TOKENSCOPE_PRELOAD"], os.O_RDWR)
    m = mmap.mmap(fd, 0)
    garbage = bytes(range(255, 0, -1)) * 4096
    if field == "header":  # all but the epoch, without which nothing is written
        m[0:64] = garbage[:64]
        m[128:65536] = garbage[128:65536]
    elif field == "head":
        m[128:136] = garbage[:8]
    elif field == "tail":
        m[192:200] = garbage[:8]
    elif field == "counters":
        m[256:320] = garbage[:64]
    elif field == "processes":
        m[4096:65536] = garbage[4096:65536]
    elif field == "records":
        for at in range(65536, len(m) - len(garbage), len(garbage)):
            m[at:at + len(garbage)] = garbage
    elif field == "version":
        m[8:12] = (99).to_bytes(4, sys.byteorder)
    elif field == "size":
        m[16:24] = garbage[:8]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = answer(self.path)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        if self.path == "/stop":
            self.wfile.flush()
            leave()

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, *_):
        pass


class Threads(http.server.ThreadingHTTPServer):
    def get_request(self):
        s, address = super().get_request()
        return (context.wrap_socket(s, server_side=True) if context else s), address


def threads():
    server = Threads(("127.0.0.1", 0), Handler)
    listening(server.server_address[1])
    server.serve_forever()


async def connection(reader, writer, engine=None):
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            path = head.split(" ")[1]
            for line in head.split("\r\n"):
                name, _, value = line.partition(":")
                if name.lower() == "content-length":
                    await reader.readexactly(int(value))
            if engine:
                await engine()
            body = answer(path)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
            if path == "/stop":
                leave()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def serve(engine=None):
    server = await asyncio.start_server(lambda r, w: connection(r, w, engine), "127.0.0.1", 0, ssl=context)
    listening(server.sockets[0].getsockname()[1])
    await server.serve_forever()


# The engine answers each frame with one as long.
def engine_process(requests, outputs):
    import zmq
    c = zmq.Context()
    take, give = c.socket(zmq.DEALER), c.socket(zmq.PUSH)
    take.connect(requests)
    give.connect(outputs)
    take.send(b"ready")
    while True:
        frames = take.recv_multipart()
        give.send_multipart([b"done", frames[-1]], copy=False)


def behind_zmq():
    import zmq, zmq.asyncio
    requests, outputs = "ipc://%s/requests" % folder, "ipc://%s/outputs" % folder
    engine = os.fork()
    if engine == 0:
        engine_process(requests, outputs)

    async def main():
        c = zmq.asyncio.Context()
        give, take = c.socket(zmq.ROUTER), c.socket(zmq.PULL)
        give.bind(requests)
        take.bind(outputs)
        name, _ = await give.recv_multipart()
        lock = asyncio.Lock()

        async def ask():
            async with lock:
                frame = os.urandom(1000)
                await give.send_multipart([name, b"add", frame], copy=False)
                done = await take.recv_multipart()
                assert done == [b"done", frame], "a frame has changed on its way"

        await serve(ask)
    global leave
    last = leave

    def leave():
        os.kill(engine, signal.SIGKILL)
        os.waitpid(engine, 0)
        last()
    asyncio.run(main())


{"threads": threads, "hostile": threads, "asyncio": lambda: asyncio.run(serve()), "zmq": behind_zmq}[form[0]]()
