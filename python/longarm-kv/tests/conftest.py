"""A real server process for the tests, in the network namespace of this process."""

import os
import shutil
import signal
import subprocess

import longarm_kv
import pytest

SECRET = "a secret of these tests"


class Server:
    """A server process. `address` is known once it listens."""

    def __init__(self, directory):
        program = os.environ.get("LONGARM", "longarm")
        if shutil.which(program) is None:
            pytest.fail(f"no program {program}: the variable LONGARM leads to it, and `cargo xtask python` sets it")
        secret = directory / "secret"
        secret.write_text(SECRET)
        secret.chmod(0o600)
        tables = ["default,max-memory=256M", "ordered,layout=tree", "shared,writable", f"vault,secret-file={secret}", "small,max-memory=2M,when-full=refuse"]
        self.command = [program, "kv", "serve", "127.0.0.1:0"]
        for table in tables:
            self.command += ["--table", table]
        self.start("127.0.0.1:0")

    def start(self, address):
        self.command[3] = address
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline().strip()
        assert line.startswith("listening on "), line
        self.address = line.removeprefix("listening on ")

    def signal(self, number):
        self.process.send_signal(number)
        if number == signal.SIGSTOP:
            os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("server"))
    yield server
    server.kill()


@pytest.fixture
def server(tmp_path):
    """A server that a test may stop and kill."""
    server = Server(tmp_path)
    yield server
    server.kill()


@pytest.fixture
def table(shared_server):
    with longarm_kv.Table(shared_server.address, "default", timeout=60) as table:
        for key in table:
            table.delete(key)
        yield table
