"""Runs a command in a terminal and types when it shows a text, as a person would.

Usage: python terminal.py '[["text that is shown", "keys"], ...]' COMMAND [ARGUMENT ...]
"""

import fcntl
import json
import os
import pty
import re
import select
import struct
import sys
import termios
import time

# How long it may show nothing that is waited for.
MAX_SECONDS = 90
# Programs draw before they read.
SETTLE_SECONDS = 1.0
# How long it may take to end after the last keys; then the terminal is closed.
END_SECONDS = 10

CONTROL = re.compile(
    r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[()][A-Z0-9]|.)"
)


def main(steps: list[list[str]], command: list[str]) -> int:
    pid, terminal = pty.fork()
    if pid == 0:
        # Nothing is drawn in a terminal without a size.
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        os.environ["TERM"] = "xterm-256color"
        os.execvp(command[0], command)
    shown = ""
    deadline = time.monotonic() + MAX_SECONDS
    while time.monotonic() < deadline:
        ready, _, _ = select.select([terminal], [], [], 0.2)
        if ready:
            try:
                chunk = os.read(terminal, 65536)
            except OSError:
                break
            if not chunk:
                break
            text = CONTROL.sub("", chunk.decode(errors="replace"))
            shown += text
            sys.stdout.write(text)
            sys.stdout.flush()
        if steps and steps[0][0] in shown:
            _, keys = steps.pop(0)
            shown = ""
            deadline = time.monotonic() + (MAX_SECONDS if steps else END_SECONDS)
            time.sleep(SETTLE_SECONDS)
            os.write(terminal, keys.encode())
    os.close(terminal)
    return os.waitpid(pid, 0)[1]


sys.exit(main(json.loads(sys.argv[1]), sys.argv[2:]))
