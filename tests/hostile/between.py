#!/usr/bin/env python3
"""Stands between the launching side and a real node, as a host would that an attacker has taken, and changes one thing that the node says.

    between.py HOSTILE SEED HOST CHANGE

Runs a shell for HOST, and forwards what goes to it. Where HOST is HOSTILE, one thing is changed: a number, a text, a list, a whole message, its frame,
its order, or a line of the dialogue before the program starts. SEED says which and how. What was changed is written to the file CHANGE.
"""

import json
import os
import random
import struct
import subprocess
import sys
import threading

MAGIC = b"\x01pipebench-node-1\x02\n"
STEERS = "\x1b[31mEVIL\x1b]0;pwn\x07\x9b5m\u202e\u2066"
NUMBERS = [0, 1, -1, 2**31, 2**63, 2**64 - 1, 2**64, -(2**63)]
FRACTIONS = [1e308, -1.0, 0.5, 1e-300]


def read_exactly(stream, count):
    data = b""
    while len(data) < count:
        piece = stream.read(count - len(data))
        if not piece:
            return None
        data += piece
    return data


def places(value, path=()):
    """All places of a value, each as the way to it."""
    yield path
    if isinstance(value, dict):
        for key, one in value.items():
            yield from places(one, path + (key,))
    elif isinstance(value, list):
        for at, one in list(enumerate(value))[:50]:
            yield from places(one, path + (at,))


def changed(value, draw):
    """Another value of the same type, or of none."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return draw.choice(NUMBERS)
    if isinstance(value, float):
        return draw.choice(FRACTIONS)
    if isinstance(value, str):
        return draw.choice(["", value + STEERS, STEERS + value, "x" * 100_000, "\n" + value, "../" * 40])
    if isinstance(value, list):
        return draw.choice([[], value * 50, value + [None], [value], list(reversed(value))])
    if isinstance(value, dict):
        kept = dict(value)
        if kept and draw.random() < 0.5:
            del kept[draw.choice(list(kept))]
        else:
            kept["more" + STEERS] = STEERS
        return kept
    return draw.choice([0, "x", [], {}])


def with_change(message, draw):
    """A message with one place changed."""
    path = draw.choice(list(places(message)))
    if not path:
        return draw.choice([changed(message, draw), STEERS, {STEERS: message}, None, [message]])
    whole = json.loads(json.dumps(message))
    at = whole
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = changed(at[path[-1]], draw)
    return whole


def frame(message):
    data = json.dumps(message, ensure_ascii=draw_ascii).encode("utf-8", "surrogatepass")
    return b"PBF1" + struct.pack("<I", len(data)) + data


draw_ascii = False


def frames_of(message, draw):
    """The bytes that are sent in a message's place."""
    how = draw.random()
    own = frame(message)
    if how < 0.70:
        return frame(with_change(message, draw))
    if how < 0.76:
        return b""  # It never comes.
    if how < 0.86:
        return own * draw.choice([2, 50, 20_000])
    if how < 0.90:
        return b"PBF1" + struct.pack("<I", draw.choice([2**32 - 1, 64 << 20, 1 << 20])) + own
    if how < 0.94:
        return draw.choice([b"garbage\x1b[31m\n", own[:-3], b"PBF2" + own[4:], b"PBF1\x00\x00\x00\x00"])
    many = draw.choice([
        {"trouble": [{"kind": "lost", "node": "x", "who": STEERS, "what": "y" * 200}] * 50},
        {"pong": {"sent_ns": 1, "node_ns": 1}},
        {"rank": {"rank": 0, "word": "ready"}},
        {"series": {"stretch_s": 1, "bytes": [[]] * 200_000}},
        "alive",
    ])
    return own + frame(many) * draw.choice([10, 3000])


def other_line(line, draw):
    """What is said in the place of a line of the dialogue."""
    return draw.choice([b"", STEERS.encode() + line, b"x" * 2_000_000 + b"\n", line * 3, line * 20_000, b"\xff\x00" + line])


def listen(node, seed, mark):
    """Forwards what the node says, one thing of it changed, which `mark` gets to know."""
    global draw_ascii
    draw = random.Random(seed)
    draw_ascii = draw.random() < 0.5
    # Draws of their own: what a seed does to a message stays as it was.
    where = random.Random(-seed).random()
    early = random.Random(-seed).randrange(3) if where < 0.08 else None
    swaps = 0.08 <= where < 0.16
    out = sys.stdout.buffer
    count = 0
    line = b""
    while not line.endswith(MAGIC):
        byte = node.stdout.read(1)
        if not byte:
            return
        line += byte
        if not byte == b"\n":
            continue
        if count == early and not line.endswith(MAGIC):
            mark(f"line {count}")
            line = other_line(line, draw)
        out.write(line)
        out.flush()
        count += 1
        if not line.endswith(MAGIC):
            line = b""
    # Early messages are few and differ, late ones are many and alike.
    target = draw.choice([0, 1, 2, 3, 3, 4, 5, 8, 12, 16, 17, 18, 19, 20, 24, 28, 30, 32, 40])
    if early is not None:
        target = -1
    number, kept = 0, b""
    while True:
        head = read_exactly(node.stdout, 8)
        data = head and read_exactly(node.stdout, struct.unpack("<I", head[4:])[0])
        if data is None:
            out.write(kept)
            out.flush()
            return
        message = json.loads(data)
        told = isinstance(message, dict) and ("finished" in message or "trouble" in message)
        if number == target or (number < target and told):
            target = -1
            mark(f"message {number}{' comes late' if swaps else ''}: {data[:60]!r}")
            if swaps:
                kept = head + data  # It comes after the next one.
            else:
                out.write(frames_of(message, draw))
        else:
            out.write(head + data + kept)
            kept = b""
        out.flush()
        number += 1


def main():
    hostile, seed, host, change = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
    node = subprocess.Popen(["/bin/sh", "-s"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def speak():
        while True:
            data = os.read(0, 65536)
            if not data:
                break
            try:
                node.stdin.write(data)
                node.stdin.flush()
            except BrokenPipeError:
                break
        try:
            node.stdin.close()
        except BrokenPipeError:
            pass

    threading.Thread(target=speak, daemon=True).start()
    try:
        if host == hostile:
            listen(node, seed, lambda what: open(change, "w", encoding="utf-8").write(what))
        else:
            while True:
                data = node.stdout.read1(65536)
                if not data:
                    break
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
    except BrokenPipeError:
        pass
    node.stdout.close()
    sys.exit(node.wait())


main()
