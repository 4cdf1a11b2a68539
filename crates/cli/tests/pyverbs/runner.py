#!/usr/bin/python3
"""Runs rdma-core's pyverbs tests, each in its own child process with a time limit.

  runner.py SUITE SECONDS [--dev la_lo --gid 0 ...]

SUITE is a directory whose `tests` is rdma-core's; the arguments after SECONDS go to the suite's own
argument parser. Prints one line of JSON per test: its name, its outcome (pass, skip, fail, error,
crash or hang) and the reason. It leaves out the modules of other drivers.
"""

import importlib
import json
import os
import re
import select
import signal
import sys
import time
import traceback
import unittest

OTHERS = re.compile(r"mlx5|efa|cuda")


def cases(suite):
    """The single tests of a suite."""
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from cases(item)
        else:
            yield item


def modules(directory):
    names = (name[:-3] for name in os.listdir(directory) if name.startswith("test_") and name.endswith(".py"))
    return sorted("tests." + name for name in names if not OTHERS.search(name))


def verdict(case):
    """Outcome and reason of a test, run in this process."""
    result = unittest.TestResult()
    try:
        unittest.TestSuite([case]).run(result)
    except unittest.SkipTest as skip:
        return "skip", str(skip)
    except BaseException:
        return "error", traceback.format_exc()
    for outcome, found in (("skip", result.skipped), ("error", result.errors), ("fail", result.failures)):
        if found:
            return outcome, found[0][1]
    return "pass", ""


def child(case, pipe):
    os.setsid()
    answer = json.dumps(verdict(case)).encode()
    while answer:
        answer = answer[os.write(pipe, answer):]
    # Skip Python's exit: threads of a failed test must not delay it.
    os._exit(0)


def listen(pipe, seconds):
    """The output of the child until its end, and whether it ended in time."""
    end, said = time.monotonic() + seconds, b""
    while (left := end - time.monotonic()) > 0:
        if not select.select([pipe], [], [], left)[0]:
            break
        part = os.read(pipe, 65536)
        if not part:
            return said, True
        said += part
        if said.endswith(b"]"):
            return said, True
    return said, False


def run(case, seconds):
    reader, writer = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        child(case, writer)
    os.close(writer)
    said, in_time = listen(reader, seconds)
    os.close(reader)
    if in_time:
        # The child closes the device when it exits; wait for that.
        for _ in range(200):
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                break
            time.sleep(0.01)
    for target in (-pid, pid):
        try:
            os.kill(target, signal.SIGKILL)
        except ProcessLookupError:
            pass
    status = os.waitpid(pid, 0)[1]
    if not in_time:
        return "hang", "no verdict after %g s" % seconds
    try:
        return json.loads(said)
    except ValueError:
        return "crash", "status %#x" % status


def main():
    suite, seconds = os.path.abspath(sys.argv[1]), float(sys.argv[2])
    directory = os.path.join(suite, "tests")
    sys.argv[1:] = sys.argv[3:]
    sys.path[:0] = [suite, directory]
    os.chdir(suite)
    importlib.import_module("args_parser").parser.parse_args()
    for name in modules(directory):
        loaded = unittest.defaultTestLoader.loadTestsFromName(name)
        for case in cases(loaded):
            outcome, why = run(case, seconds)
            print(json.dumps({"test": case.id(), "outcome": outcome, "why": why}), flush=True)


main()
