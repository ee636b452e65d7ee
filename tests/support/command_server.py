"""Commands in forks of one process, which has imported what they import: that takes longer than most of their work.

A command is asked for by a script ``concord`` on the ``PATH`` of `command_server`. Its fork has the arguments, the
folder, the environment and the open files of who asks, and ends as an interpreter ends. Modules read the environment
when they are imported, so a command whose environment differs by more than `LATE` is a process of its own, and so is
one that prints to a terminal.
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

SERVER = "CONCORD_COMMAND_SERVER"
"""Variable with the address of the server, a socket."""

LATE = {"CONCORD_HOME", "CONCORD_TRUST", "PATH", "PWD", "OLDPWD", "SHLVL", "VIRTUAL_ENV", "_", SERVER}
"""Variables that no module reads when it is imported."""

IMPORTED = (
    "concord.flows.cli.app",
    "concord.flows.commands.label",
    "concord.flows.nights.drift",
    "concord.flows.reprocess",
    "concord.flows.labelling.label_corpus",
    "concord.flows.train",
    "concord.flows.training.train_model",
    "concord.flows.tracking.packaging",
    "numba.np.npyimpl",
    "numba.misc.cffiimpl",
    "scipy.linalg",
)
"""Modules of commands. None imports Prefect: whether it is imported tells a command that a server may watch it."""

REAL = (sys.executable, "-c", "from concord.flows.cli.app import app; app()")
"""A command as a process of its own, whatever way the project is installed."""

KIND = socket.SOCK_SEQPACKET  # a request comes whole
LONGEST = 1 << 20
"""Bytes of a request, at most."""


class Request(NamedTuple):
    """What a command is to be like."""

    arguments: list[str]
    folder: str
    environment: dict[str, str]


@contextmanager
def command_server(environment: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The same environment, in which ``concord`` is served by a process that lives as long as the block."""
    with TemporaryDirectory(dir="/tmp", prefix="c") as folder:
        bin_folder, address = Path(folder) / "bin", f"{folder}/socket"
        bin_folder.mkdir()
        script = bin_folder / "concord"
        script.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {__file__} ask "$@"\n')
        script.chmod(0o755)
        command = [sys.executable, __file__, "serve", address]
        with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
            assert server.stdin is not None
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            try:
                yield {**environment, "PATH": f"{bin_folder}:{environment['PATH']}", SERVER: address}
            finally:
                server.stdin.close()  # which ends it


class CommandServers(ExitStack):
    """A server for each environment that one is wanted for, until the end of the block."""

    def __init__(self) -> None:
        super().__init__()
        self.started: dict[str, dict[str, str]] = {}

    def within(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The same environment, in which ``concord`` is served."""
        key = json.dumps(at_import(environment), sort_keys=True)
        if key not in self.started:
            self.started[key] = self.enter_context(command_server(environment))
        served = self.started[key]
        return {
            **environment,
            "PATH": f"{served['PATH'].partition(':')[0]}:{environment['PATH']}",
            SERVER: served[SERVER],
        }


def at_import(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that modules may have read."""
    return {name: value for name, value in environment.items() if name not in LATE}


def ask(arguments: list[str]) -> None:
    """Has the server run the command, or runs it in place of this process; ends as the command ends."""
    if not os.isatty(1) and not os.isatty(2):
        with socket.socket(socket.AF_UNIX, KIND) as connection:
            connection.connect(os.environ[SERVER])
            request = Request(arguments, str(Path.cwd()), dict(os.environ))
            socket.send_fds(connection, [json.dumps(request).encode()], [0, 1, 2])
            if answer := connection.recv(16):
                end_as(int(answer))
    os.execv(REAL[0], [*REAL, *arguments])


def end_as(code: int) -> None:
    """Ends this process with an exit code, or by the signal of a negative one."""
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code)


class Server:
    """Forks for each request, and tells who asked how the fork ended."""

    def __init__(self, address: str) -> None:
        before = dict(os.environ)
        for name in IMPORTED:
            import_module(name)
        gc.collect()
        gc.freeze()
        self.own = at_import(before)
        self.added = {name: text for name, text in os.environ.items() if name not in before}
        """Variables that imports have set, as Ray does."""
        self.events = selectors.DefaultSelector()
        self.children: dict[int, tuple[int, socket.socket]] = {}
        """Child, and who asked for it, by a file that can be read when the child has ended."""
        self.listener = socket.socket(socket.AF_UNIX, KIND)
        self.listener.bind(address)
        self.listener.listen()

    def serve(self) -> Request:
        """Returns in forks alone, with what each is to do. Ends the process when standard input is closed."""
        self.events.register(self.listener, selectors.EVENT_READ, self.fork)
        self.events.register(0, selectors.EVENT_READ, self.end)
        os.write(1, b"ready\n")
        request: Request | None = None
        while request is None:
            # One at a time: what is done about it may be the end of what another one is about.
            (key, _), *_ = self.events.select()
            request = key.data()
        return request

    def fork(self) -> Request | None:
        """Runs a command, or leaves it to who asks; returns in the fork what it is to do."""
        connection, _ = self.listener.accept()
        text, files, _, _ = socket.recv_fds(connection, LONGEST, 3)
        request = Request(*json.loads(text))
        if at_import(request.environment) != self.own:
            connection.close()
        elif child := os.fork():
            ended = os.pidfd_open(child)
            self.children[ended] = child, connection
            self.events.register(ended, selectors.EVENT_READ, partial(self.tell, ended))
            self.events.register(connection, selectors.EVENT_READ, partial(self.leave, child, connection))
        else:
            self.forget(connection)
            self.become(request, files)
            return request
        for file in files:
            os.close(file)
        return None

    def tell(self, ended: int) -> None:
        """Takes leave of a child, and tells who asked for it how it ended."""
        child, connection = self.children.pop(ended)
        self.events.unregister(ended)
        os.close(ended)
        if connection in self.events.get_map():
            self.events.unregister(connection)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with connection, suppress(BrokenPipeError):  # who asked may be gone
            connection.send(str(code).encode())

    def leave(self, child: int, connection: socket.socket) -> None:
        """Kills a child: who asked for it is gone."""
        self.events.unregister(connection)
        os.kill(child, signal.SIGKILL)

    def forget(self, connection: socket.socket) -> None:
        """Closes all that is the server's own, in a fork."""
        for ended, (_, other) in self.children.items():
            os.close(ended)
            other.close()
        for own in (connection, self.listener, self.events):
            own.close()

    def become(self, request: Request, files: list[int]) -> None:
        """Makes a fork what a process of its own would be."""
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        os.chdir(request.folder)
        os.environ.clear()
        os.environ.update(self.added | request.environment)
        sys.argv = ["concord", *request.arguments]

    def end(self) -> None:
        """Ends all of it."""
        for child, _ in self.children.values():
            os.kill(child, signal.SIGKILL)
        os._exit(0)


def main() -> None:
    """The program of both sides."""
    if sys.argv[1] == "ask":
        ask(sys.argv[2:])
    sys.path[0] = str(Path(sys.executable).parent)  # where the console script stands
    Server(sys.argv[2]).serve()
    import_module(IMPORTED[0]).app()


if __name__ == "__main__":
    main()
