"""Ports for programs that must be told one, and keep it when they start again."""

import contextlib
import os
import pathlib
import random
import socket

given = set()  # by this process
PARTS = 16  # of the ports; processes with neighbouring numbers choose from different parts


def free_ports(count):
    """The first of so many neighbouring ports that are free. They lie below those that the system gives to whoever asks for any:
    a test beside this one does not get one of them before it is used."""
    lowest_of_the_system = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    end = lowest_of_the_system if lowest_of_the_system > 8192 else 32768  # where it gives nearly all, there is no better place
    part = end // 2 // PARTS
    begin = end // 2 + os.getpid() % PARTS * part
    while True:
        first = random.SystemRandom().randrange(begin, begin + part - count)
        ports = range(first, first + count)
        if given.intersection(ports):
            continue
        with contextlib.ExitStack() as bound:
            try:
                for port in ports:
                    bound.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
        given.update(ports)
        return first


def free_port():
    return free_ports(1)
