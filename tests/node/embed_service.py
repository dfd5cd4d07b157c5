"""A small HTTP server on loopback that answers as a test tells it to: the services of the tests."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec


class Request(msgspec.Struct, frozen=True):
    """One request as it came."""

    line: str
    headers: dict[str, str]
    body: bytes

    def texts(self) -> list[str]:
        """The texts that were to be embedded."""
        texts: list[str] = msgspec.json.decode(self.body)["input"]
        return texts


class Answer(msgspec.Struct, frozen=True):
    """What to say to one request; `silent`: take it and never answer; `drip`: a byte at a time."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = {}
    silent: bool = False
    drip: bool = False


Reply = Callable[[Request], Answer]


class Service:
    """Answers with `replies` in turn, the last one again and again; keeps what was asked."""

    def __init__(self, replies: list[Reply]) -> None:
        self.replies = replies
        self.requests: list[Request] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until the client closes it."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
                original = dict(line.split(": ", 1) for line in head[1:] if line)
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                request = Request(head[0], {name.lower(): value for name, value in original.items()}, body)
                answer = self.replies[min(len(self.requests), len(self.replies) - 1)](request)
                self.requests.append(request)
                if answer.silent:
                    continue
                lines = [f"HTTP/1.1 {answer.status} Said", f"Content-Length: {len(answer.body)}"]
                lines += [f"{name}: {value}" for name, value in answer.headers.items()]
                writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
                for piece in [bytes([one]) for one in answer.body] if answer.drip else [answer.body]:
                    writer.write(piece)
                    await writer.drain()
                    if answer.drip:
                        await asyncio.sleep(0.01)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def vectors(*rows: list[float]) -> Reply:
    """A reply with these vectors, numbered in order."""
    body = msgspec.json.encode(
        {
            "object": "list",
            "model": "m",
            "data": [{"object": "embedding", "index": n, "embedding": row} for n, row in enumerate(rows)],
        }
    )
    return lambda _: Answer(body=body)


def lengths(request: Request) -> Answer:
    """A vector (1, length) per text, in reversed order of numbers, as services may send them."""
    texts = list(enumerate(request.texts()))
    data = [{"index": n, "embedding": [1.0, float(len(text))]} for n, text in reversed(texts)]
    return Answer(body=msgspec.json.encode({"data": data}))


def says(status: int, body: str = "", headers: dict[str, str] | None = None) -> Reply:
    """A reply with a status."""
    return lambda _: Answer(status, body.encode(), headers or {})


def talks(content: str | None, *, finish: str = "stop", tokens: int | None = 60) -> Reply:
    """A chat model that always says this."""
    body = {"choices": [{"index": 0, "message": {"role": "assistant", "content": content},
                         "finish_reason": finish}]}  # fmt: skip
    usage = {} if tokens is None else {"usage": {"total_tokens": tokens}}
    return lambda _: Answer(body=msgspec.json.encode(body | usage))


def silence(_: Request) -> Answer:
    """No reply, ever."""
    return Answer(silent=True)


@asynccontextmanager
async def service(*replies: Reply) -> AsyncIterator[Service]:
    """A running service; `url` is its base address."""
    it = Service(list(replies))
    server = await asyncio.start_server(it.serve, "127.0.0.1", 0)
    it.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    async with server:
        yield it
        server.close()
