"""Checks before there is load: who reaches which port, what operators see, and that blocks travel between workers."""

import re

from outsider import reaches

PORTS = {"api": 8000, "admin": 8001, "metrics": 8002, "link": 7001, "worker": 9101, "transfer": 7100}


def check_names_and_doors(harness):
    """Returns what is wrong."""
    router, worker = harness.routers()[0].address, harness.workers()[0].address
    api = (router, PORTS["api"])
    metrics = [(router, PORTS["metrics"]), (worker, PORTS["worker"])]
    closed = [(router, PORTS["admin"]), (router, PORTS["link"]), (worker, PORTS["transfer"])]
    expected = [
        ("a client", harness.app, [api], [*metrics, *closed]),
        ("Prometheus", harness.monitoring, metrics + [api] * harness.options.is_secure, closed),
        ("a stranger", harness.stranger, [api] * harness.options.is_secure, [*metrics, *closed]),
        ("a router", harness.routers()[0], [], [(worker, PORTS["transfer"])]),
        ("another worker", harness.workers()[1], [(worker, PORTS["transfer"])], [(worker, PORTS["worker"])]),
    ]
    problems = []
    for name, pod, may, may_not in expected:
        problems += [f"{name} does not reach {door}" for door in may if not reaches(pod.pause, *door)]
        problems += [f"{name} reaches {door}" for door in may_not if reaches(pod.pause, *door)]
    status = harness.roostctl("status")
    workers = [pod.name for pod in harness.workers()]
    if status.returncode != 0 or not all(name in status.stdout for name in workers):
        problems.append(f"roostctl status: {status.stdout[-500:]}")
    harness.log(f"doors and status: {problems or 'as they should be'}")
    return problems + check_blocks_travel(harness, workers)


def check_blocks_travel(harness, workers):
    """A prompt that one worker has computed is fetched by another one, from pod to pod."""
    for worker in workers[:2]:
        done = harness.roostctl("warm", "--model", "my-model", "--prompt", "Now is the winter of our discontent. " * 20,
                                "--workers", worker)
    if re.search(rf"{workers[1]}: holds (\d+) blocks, \1 pulled from {workers[0]} ", done.stdout):
        harness.log(f"blocks travel: {done.stdout.splitlines()[-1].strip()}")
        return []
    return [f"no block came to {workers[1]} from {workers[0]}: {done.stdout[-500:]}"]
