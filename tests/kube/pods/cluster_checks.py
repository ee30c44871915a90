"""Checks before there is load: who reaches which port, and what operators see."""

PORTS = {"api": 8000, "admin": 8001, "metrics": 8002, "link": 7001, "worker": 9101}


def check_names_and_doors(harness):
    """Returns what is wrong."""
    router, worker = harness.routers()[0].address, harness.workers()[0].address
    api = (router, PORTS["api"])
    metrics = [(router, PORTS["metrics"]), (worker, PORTS["worker"])]
    closed = [(router, PORTS["admin"]), (router, PORTS["link"])]
    expected = [
        ("a client", harness.app, [api], [*metrics, *closed]),
        ("Prometheus", harness.monitoring, metrics + [api] * harness.options.is_secure, closed),
        ("a stranger", harness.stranger, [api] * harness.options.is_secure, [*metrics, *closed]),
    ]
    problems = []
    for name, outsider, may, may_not in expected:
        problems += [f"{name} does not reach {door}" for door in may if not outsider.reaches(*door)]
        problems += [f"{name} reaches {door}" for door in may_not if outsider.reaches(*door)]
    status = harness.status()
    workers = [pod.name for pod in harness.workers()]
    if status.returncode != 0 or not all(name in status.stdout for name in workers):
        problems.append(f"roostctl status: {status.stdout[-500:]}")
    harness.log(f"doors and status: {problems or 'as they should be'}")
    return problems
