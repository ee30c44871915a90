"""A DNS server for the names of Services, in a process of its own: it answers from a file of `name address …` lines, which
it reads again when it changes. Other names do not exist.

    dns.py ADDRESS FILE
"""

import os
import socket
import struct
import sys

TYPE_A, CLASS_IN = 1, 1
NO_SUCH_NAME = 3
SECONDS_TO_LIVE = 5


class Names:
    def __init__(self, path):
        self.path = path
        self.read_at = None
        self.addresses = {}

    def find(self, name):
        """Its addresses, or None."""
        changed = os.stat(self.path).st_mtime_ns
        if changed != self.read_at:
            with open(self.path, encoding="ascii") as file:
                lines = [line.split() for line in file if line.strip()]
            self.addresses = {words[0]: words[1:] for words in lines}
            self.read_at = changed
        return self.addresses.get(name.lower())


def question_of(packet):
    """The name, the type and the bytes of the one question."""
    labels = []
    position = 12
    while packet[position] != 0:
        length = packet[position]
        labels.append(packet[position + 1:position + 1 + length].decode("ascii"))
        position += 1 + length
    kind, = struct.unpack_from("!H", packet, position + 1)
    return ".".join(labels), kind, packet[12:position + 5]


def answer(packet, names):
    identity, flags = struct.unpack_from("!HH", packet)
    name, kind, question = question_of(packet)
    addresses = names.find(name)
    code = 0 if addresses is not None else NO_SUCH_NAME
    records = [struct.pack("!HHHIH", 0xC00C, TYPE_A, CLASS_IN, SECONDS_TO_LIVE, 4) + socket.inet_aton(address)
               for address in (addresses or []) if kind == TYPE_A]
    # An answer with authority, and recursion as it was asked for.
    head = struct.pack("!HHHHHH", identity, 0x8480 | flags & 0x0100 | code, 1, len(records), 0, 0)
    return head + question + b"".join(records)


def main():
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind((sys.argv[1], 53))
    names = Names(sys.argv[2])
    while True:
        packet, client = listener.recvfrom(4096)
        try:
            listener.sendto(answer(packet, names), client)
        except (IndexError, UnicodeDecodeError, struct.error):
            continue  # not a question


if __name__ == "__main__":
    main()
