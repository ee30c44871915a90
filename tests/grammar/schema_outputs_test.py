"""Checks the outputs of schema_outputs with an independent validator of JSON schemas (python3-jsonschema).

    schema_outputs_test.py build/release/bin/schema_outputs 2000 [SEED [TOKENIZER_JSON]]

At least 80 of 100 outputs end by themselves, and all of these are JSON that is valid under their schema. Exit code 77:
skipped, with the reason on stderr."""

import json
import subprocess
import sys

SKIP = 77
LEAST_ENDED = 0.8


def problem(validator, line):
    """The fault of an output that ended; None if there is none."""
    try:
        value = json.loads(line["output"])
    except ValueError as error:
        return f"is no JSON: {error}"
    errors = sorted(validator(line["schema"]).iter_errors(value), key=str)
    return errors[0].message if errors else None


def main():
    try:
        import jsonschema
    except ImportError:
        print("skipped: python3-jsonschema is not installed", file=sys.stderr)
        return SKIP
    sys.set_int_max_str_digits(0)
    checker = jsonschema.FormatChecker(["date", "email", "ipv4", "uuid"])
    run = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, check=False)
    if run.returncode == SKIP:
        return SKIP
    if run.returncode != 0:
        return run.returncode
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    ended = [line for line in lines if line.get("ended")]
    broken = 0
    for number, line in enumerate(lines, 1):
        wrong = f"was refused: {line['refused']}" if "refused" in line else None
        if line.get("ended"):
            wrong = problem(lambda schema: jsonschema.Draft202012Validator(schema, format_checker=checker), line)
        if wrong:
            broken += 1
            print(f"schema {number} {wrong[:300]}\n  {json.dumps(line)[:1500]}", file=sys.stderr)
    share = len(ended) / max(1, len(lines))
    print(f"{len(lines)} schemas, {share:.1%} ended by themselves, {broken} of these wrong or refused")
    return 0 if lines and broken == 0 and share >= LEAST_ENDED else 1


if __name__ == "__main__":
    sys.exit(main())
