#!/usr/bin/env python3
"""Writes the manual page of a program from its --help, and so from the table of its options:

  man_pages.py roost-router build/release/bin/roost-router > roost-router.8
"""

import re
import subprocess
import sys

# Program -> section of the manual, one line of what it is, and what --help does not say.
PAGES = {
    "roost-router": (8, "sends requests for language models to the worker that holds their prefix", """
.SH FILES
.TP
.I /etc/roost/router.toml
The configuration of the service.
.TP
.I /etc/roost/router/
Keys and certificates; only the user roost\\-router reads it.
.TP
.I /var/lib/roost\\-router/, /run/roost\\-router/
What the service may write: recordings, and a socket for operators.
.SH SIGNALS
SIGTERM and SIGINT end it after its open requests; a second one at once.
SIGHUP reads keys, certificates and peers again.
.SH EXIT STATUS
0 after a complete end, 64 for wrong flags, 69 if something that it needs is not there or an address is in use, 78 for a wrong configuration.
.SH SEE ALSO
.BR roost\\-worker (8),
.BR roostctl (1)
"""),
    "roost-worker": (8, "serves a language model to routers, with a cache of prefixes", """
.SH FILES
.TP
.I /etc/roost/worker.toml
The configuration of the service roost\\-worker.
.TP
.I /etc/roost/worker\\-NAME.toml
The configuration of the service roost\\-worker@NAME.
.TP
.I /etc/roost/worker/
Keys; only the user roost\\-worker reads it.
.TP
.I /usr/share/roost/demo\\-model/
A small model for a try.
.SH SIGNALS
SIGTERM and SIGINT end it after its running requests; a second one at once.
SIGHUP reads the certificate of its HTTP endpoints again.
.SH EXIT STATUS
0 after a complete end, 1 if running requests were cut off, 64 for wrong flags, other codes of sysexits if it can not
start.
.SH SEE ALSO
.BR roost\\-router (8),
.BR roostctl (1)
"""),
    "roostctl": (1, "the operator's command line of Roost", """
.SH SEE ALSO
.BR roost\\-router (8),
.BR roost\\-worker (8)
"""),
}
OPTION = re.compile(
    r"^  (?P<name>--[\w-]+|[A-Z]+)(?P<type> [A-Z].*?)?"
    r"(?: \(Env:(?P<variable>\w+)\)(?= |$)|(?=  |$))(?: +(?P<text>\S.*))?$")


def escaped(text):
    """Text as roff: hyphens that can be copied, no dot or quote that looks like a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def help_of(*command):
    return subprocess.run([*command, "--help"], capture_output=True, text=True, check=True).stdout


def facts_of(kind, variable, text):
    """The end of an option's text, from a type such as UINT:UINT in [1 - 256]=1."""
    facts = []
    bounds = re.search(r" in \[(\S+) - (\S+)\]", kind)
    choices = re.search(r"\{(.*?)\}", kind)
    default = re.search(r"(?:\]|\}|^[A-Z]+)=(.+?)(?: \.\.\.)?$", kind)
    if choices:
        facts.append(f"One of {choices.group(1).replace(',', ', ')}.")
    if bounds and float(bounds.group(2)) < 1e17:
        facts.append(f"From {bounds.group(1)} to {bounds.group(2)}.")
    if kind.endswith("..."):
        facts.append("May be repeated.")
    if default and default.group(1) != "[]" and "Default:" not in text:
        facts.append(f"Default: {default.group(1)}.")
    if "REQUIRED" in kind:
        facts.append("Required.")
    return facts + ([f"Variable: {variable}."] if variable else [])


def option(match, text):
    kind = (match["type"] or "").strip()
    value = re.match(r"[A-Z]+", kind)
    name = f"\\fB{escaped(match['name'])}\\fR" + (f" \\fI{value.group(0)}\\fR" if value else "")
    sentence = text if text.endswith(".") else text + "."
    sentences = [sentence, *facts_of(kind, match["variable"], text)]
    return f".TP\n{name}\n{escaped(' '.join(sentences))}\n"


def options(lines, heading):
    """The sections of a help text, each below a request `heading`."""
    page, at = "", 0
    while at < len(lines):
        line = lines[at]
        at += 1
        match = OPTION.match(line)
        if match:
            text = match["text"] or lines[at].strip()
            at += 0 if match["text"] else 1
            page += option(match, text)
        elif re.match(r"^[A-Z][\w ]*:$", line):
            page += f".{heading} {line[:-1]}\n"
        elif line.strip():
            raise SystemExit(f"man_pages.py: a line of --help has another form: {line}")
    return page


def daemon(program):
    description, usage, *lines = help_of(program).splitlines()
    page = f".SH SYNOPSIS\n.B {escaped(usage.removeprefix('Usage: '))}\n.SH DESCRIPTION\n{escaped(description)}\n.PP\n"
    page += escaped("Each option is also a variable of the environment, and without its dashes a key of the file that "
                    "--config names. A flag overrides the variable, and the variable the file. Defaults are those of "
                    "the machine that made this page; --help prints those of this one.") + "\n"
    return page + ".SH OPTIONS\n" + options(lines, "SS")


def commands(program):
    """The commands of roostctl, also those that stand behind another one."""
    for name in re.findall(r"^  ([a-z][a-z-]*) ", help_of(program), re.MULTILINE):
        asked = subprocess.run([program, name, "--help"], capture_output=True, text=True)
        if asked.returncode == 0:
            yield [name]
        else:  # it says what stands behind it
            yield from ([name, kind] for kind in re.findall(rf"roostctl {name} ([a-z]+)\b", asked.stderr))


def command_line(program):
    page = ".SH SYNOPSIS\n.B roostctl\n.I COMMAND\n[OPTIONS]\n.SH COMMANDS\n"
    general = ""
    for command in commands(program):
        description, usage, *lines = help_of(program, *command).splitlines()
        begin = lines.index("General:")
        end = next(at for at in range(begin, len(lines)) if not lines[at].strip())
        general = options(lines[begin + 1:end], "SS")
        del lines[begin:end]
        page += f".SS {escaped(usage.removeprefix('Usage: '))}\n{escaped(description)}\n"
        page += re.sub(r"^\.PP .*\n", "", options(lines, "PP"), flags=re.MULTILINE)
    return page + ".SH OPTIONS OF ALL COMMANDS\n" + general


def main():
    name, program = sys.argv[1:]
    section, summary, ending = PAGES[name]
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    body = command_line(program) if name == "roostctl" else daemon(program)
    sys.stdout.write(f'.TH {name.upper()} {section} "" "Roost {version}" "Roost"\n'
                     f".SH NAME\n{escaped(name)} \\- {escaped(summary)}\n{body}{ending.lstrip()}")


if __name__ == "__main__":
    main()
