"""Each alert fires on series that call for it, says so in plain words, and keeps quiet on series that do not; recorded
ratios have the right values. promtool evaluates the rules; this writes its test file."""

import dataclasses
import pathlib
import re
import subprocess
import tempfile
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = sorted((ROOT / "dashboards/rules").glob("*.yaml"))
RUNBOOK = ROOT / "dashboards/runbook.md"
DOCS = "https://git.example.com/roost"
MINUTES_BEFORE = 300  # the time that RoostHitRateFell takes for the day


@dataclasses.dataclass
class Case:
    """`fires` and `quiet`: series -> values, a minute apart, in promtool's notation: of the failure that the alert is for,
    and of a common event that it must not fire for. dashboards/runbook.md has a row with both."""

    at: str
    fires: dict
    quiet: dict
    labels: dict  # of the alert that fires, besides its name and severity
    summary: str


def steady(value, minutes=60):
    return f"{value}+0x{minutes}"


def growing(per_minute, minutes=60, start=0):
    return f"{start}+{per_minute}x{minutes}"


def generations(outcome, per_minute):
    return {f'roost_router_generations_total{{job="r",model="m",outcome="{outcome}"}}': growing(per_minute)}


def latency(histogram, slow, per_minute=1000):
    """Observations; all of them at most 0.5 s, or all above 25."""
    return {
        f'{histogram}_bucket{{job="r",model="m",le="{bound}"}}': growing(0 if slow and bound != "+Inf" else per_minute)
        for bound in ("0.5", "25", "+Inf")
    } | {f'{histogram}_count{{job="r",model="m"}}': growing(per_minute)}


def sent(*per_minute):
    return {
        f'roost_router_worker_requests_total{{job="r",model="m",worker="w{number}"}}': growing(each)
        for number, each in enumerate(per_minute)
    }


def hits(before, after, prompts_after=100):
    """Cached tokens per minute over a day, and in the last hour; 100 prompt tokens per minute, and others in that hour."""
    cached = " ".join([f"0+{before}x{MINUTES_BEFORE}", f"{before * MINUTES_BEFORE}+{after}x60"])
    prompts = " ".join([f"0+100x{MINUTES_BEFORE}", f"{100 * MINUTES_BEFORE}+{prompts_after}x60"])
    return {
        'roost_router_cached_tokens_total{job="r",model="m"}': cached,
        'roost_router_prompt_tokens_total{job="r",model="m"}': prompts,
    }


def once(counter, at_minute=20):
    """A counter that exists from the start and counts one event."""
    return {counter: f"0+0x{at_minute} 1+0x60"}


def never(counter):
    return {counter: steady(0)}


def ready(*spans, model="m", instance="a"):
    """Ready workers: (number, minutes) each."""
    values = " ".join(f"{number}+0x{minutes - 1}" for number, minutes in spans)
    return {f'roost_router_workers{{job="r",instance="{instance}",model="{model}",state="ready"}}': values}


def outcomes(**per_minute):
    return {key: value for outcome, each in per_minute.items() for key, value in generations(outcome, each).items()}


def burst(counter, per_minute, begin, minutes, total=400):
    """Counts from minute `begin` on for `minutes`."""
    return {counter: f"0+0x{begin - 1} 0+{per_minute}x{minutes} {per_minute * minutes}+0x{total}"}


BUILD = {'roost_build_info{job="r",instance="a",version="1"}': steady(1)}
CASES = {
    "RoostRoutersAbsent": Case(
        "5m", {"up": steady(0)}, {'roost_router_active_requests{job="r"}': steady(0)}, {}, "Prometheus sees no router"
    ),
    "RoostNoReadyWorker": Case(
        "10m",
        ready((1, 3), (0, 60)) | ready((0, 60), instance="b") | ready((2, 60), model="other"),
        ready((1, 5), (0, 2), (1, 60)) | ready((0, 60), instance="b"),
        {"job": "r", "model": "m"},
        "No router of r has a ready worker of m",
    ),
    "RoostServerErrors": Case(
        "20m",
        {f'roost_router_requests_total{{job="r",route="chat_completions",code="{code}"}}': growing(n) for code, n in
         (("200", 90), ("503", 10))},
        {'roost_router_requests_total{job="r",route="chat_completions",code="200"}': growing(1)}
        | burst('roost_router_requests_total{job="r",route="chat_completions",code="503"}', 1, 15, 2),
        {"job": "r"},
        "10% of the answers of r were server errors in the last hour",
    ),
    "RoostGenerationsFail": Case(
        "20m",
        outcomes(stop=90, unavailable=6, internal=4),
        outcomes(stop=0) | burst('roost_router_generations_total{job="r",model="m",outcome="internal"}', 1, 15, 1),
        {"job": "r", "model": "m"},
        "10% of the generations of m failed in the last hour",
    ),
    "RoostGenerationsFailSlowly": Case(
        "120m",
        {key: value.replace("x60", "x200") for key, value in outcomes(stop=95, unavailable=5).items()},
        {key: value.replace("x60", "x200") for key, value in outcomes(stop=95, client_gone=5).items()}
        | burst('roost_router_generations_total{job="r",model="m",outcome="unavailable"}', 40, 60, 5),
        {"job": "r", "model": "m"},
        "5% of the generations of m failed in the last six hours",
    ),
    "RoostFirstTokenSlow": Case(
        "30m",
        latency("roost_router_ttft_seconds", slow=True),
        latency("roost_router_ttft_seconds", slow=True, per_minute=1),
        {"job": "r", "model": "m"},
        "The first token of m takes 25s at the 99th percentile",
    ),
    "RoostTokensSlow": Case(
        "30m",
        latency("roost_router_inter_token_seconds", slow=True),
        latency("roost_router_inter_token_seconds", slow=True, per_minute=100),
        {"job": "r", "model": "m"},
        "Tokens of m come 25s apart at the 99th percentile",
    ),
    "RoostQueueGrows": Case(
        "30m",
        {'roost_router_queued_requests{job="r",model="m"}': growing(1)},
        {'roost_router_queued_requests{job="r",model="m"}': "0 5 0 7 0 5 0 7 0 5 0 7 0 5 0 7 0 5 0 7 0 5 0 7 0 5 0 7 0 5 0"},
        {"job": "r", "model": "m"},
        "Requests for m wait at the routers all the time",
    ),
    "RoostRequestsRefused": Case(
        "40m",
        {'roost_router_queue_refused_total{job="r",model="m",reason="full"}': growing(30)} | generations("stop", 270),
        burst('roost_router_queue_refused_total{job="r",model="m",reason="full"}', 100, 15, 8) | generations("stop", 270),
        {"job": "r", "model": "m", "reason": "full"},
        "10% of the requests for m are answered 429: the queue is over its full limit",
    ),
    "RoostKeyOverLimit": Case(
        "40m",
        {'roost_router_key_refused_requests_total{job="r",key="app",tenant="acme"}': growing(3)},
        {'roost_router_key_refused_requests_total{job="r",key="app",tenant="acme"}': "0+3x10 30+0x50"},
        {"job": "r", "key": "app", "tenant": "acme"},
        "The key app of acme is over a limit of its own",
    ),
    "RoostCertificateExpires": Case(
        "10m",
        {'roost_worker_tls_certificate_expiry_timestamp_seconds{job="r",instance="a"}': steady(6 * 86400)},
        {'roost_router_tls_certificate_expiry_timestamp_seconds{job="r",instance="a"}': steady(8 * 86400),
         'roost_router_tls_certificate_expiry_timestamp_seconds{job="r",instance="b"}': steady(0)},
        {"job": "r", "instance": "a"},
        "The TLS certificate of a expires in less than a week",
    ),
    "RoostWorkersLost": Case(
        "30m",
        ready((3, 15), (1, 60)) | {'roost_router_workers_lost_total{job="r",model="m",reason="silent"}': "0+0x14 2+0x60"},
        ready((3, 15), (2, 6), (3, 60)) | {'roost_router_workers_lost_total{job="r",model="m",reason="silent"}': "0+0x14 1+0x60"},
        {"job": "r", "model": "m"},
        "m has 2 ready workers less than half an hour ago, and some were lost",
    ),
    "RoostWorkersKeepFailing": Case(
        "65m",
        {'roost_router_workers_lost_total{job="r",model="m",instance="a",reason="silent"}': "0+0x9 1+0x9 2+0x9 3+0x9 4+0x9 5+0x60"},
        {'roost_router_workers_lost_total{job="r",model="m",instance="a",reason="silent"}': "0+0x9 1+0x29 2+0x60",
         'roost_router_workers_lost_total{job="r",model="m",instance="b",reason="silent"}': "0+0x9 1+0x29 2+0x60"},
        {"job": "r", "model": "m", "reason": "silent"},
        "Workers of m are lost again and again: silent",
    ),
    "RoostRetries": Case(
        "55m",
        {'roost_router_retries_total{job="r",model="m",reason="overloaded"}': growing(10)} | generations("stop", 100),
        burst('roost_router_retries_total{job="r",model="m",reason="worker_lost"}', 300, 40, 1) | generations("stop", 100),
        {"job": "r", "model": "m"},
        "10% of the generations of m are sent to a second worker",
    ),
    "RoostWorkerStalled": Case(
        "20m",
        {'roost_worker_running_requests{job="w",instance="a",model="m",worker="w1"}': steady(3),
         'roost_worker_step_seconds_count{job="w",instance="a",model="m",worker="w1"}': "0+100x10 1000+0x50"},
        {'roost_worker_running_requests{job="w",instance="a",model="m",worker="w1"}': steady(3),
         'roost_worker_step_seconds_count{job="w",instance="a",model="m",worker="w1"}': "0+100x12 1200+0x4 0+100x60",
         'roost_worker_running_requests{job="w",instance="b",model="m",worker="w2"}': steady(0),
         'roost_worker_step_seconds_count{job="w",instance="b",model="m",worker="w2"}': steady(7)},
        {"job": "w", "instance": "a", "model": "m", "worker": "w1"},
        "w1 has running requests and completes no step",
    ),
    "RoostEngineAway": Case(
        "20m",
        {'roost_worker_engine_available{job="w",instance="a",model="m",worker="w1"}': steady(0)},
        {'roost_worker_engine_available{job="w",instance="a",model="m",worker="w1"}': "1+0x3 0+0x0 1+0x60"},
        {"job": "w", "instance": "a", "model": "m", "worker": "w1"},
        "The engine beside w1 is away",
    ),
    "RoostWorkerLinkDown": Case(
        "20m",
        {'roost_worker_links{job="w",worker="w1",state="down"}': steady(2), 'roost_worker_links{job="w",worker="w1",state="up"}': steady(1)},
        {'roost_worker_links{job="w",worker="w1",state="down"}': "1+0x3 0+0x60"},
        {"job": "w", "worker": "w1", "state": "down"},
        "w1 does not reach 2 of its routers",
    ),
    "RoostKvCacheFull": Case(
        "40m",
        {'roost_worker_kv_usage_ratio{job="w",instance="a",worker="w1"}': steady(0.99),
         'roost_worker_preemptions_total{job="w",instance="a",worker="w1"}': growing(2)},
        {'roost_worker_kv_usage_ratio{job="w",instance="a",worker="w1"}': steady(0.99),
         'roost_worker_preemptions_total{job="w",instance="a",worker="w1"}': steady(5),
         'roost_worker_kv_usage_ratio{job="w",instance="b",worker="w2"}': steady(0.5),
         'roost_worker_preemptions_total{job="w",instance="b",worker="w2"}': growing(2)},
        {"job": "w", "instance": "a", "worker": "w1"},
        "Requests use nearly all KV blocks of w1, and it preempts",
    ),
    "RoostLoadUneven": Case(
        "55m",
        sent(600, 10, 10, 10) | generations("stop", 630),
        sent(600, 300, 300, 300) | generations("stop", 1500),
        {"job": "r", "model": "m"},
        "The busiest worker of m has 3.81 times the mean of the requests",
    ),
    "RoostWrongHit": Case(
        "25m",
        once('roost_worker_wrong_hits_total{job="w",worker="w1"}'),
        never('roost_worker_wrong_hits_total{job="w",worker="w1"}') | {'roost_worker_verified_hits_total{job="w",worker="w1"}': growing(9)},
        {"job": "w", "worker": "w1"},
        "A cache hit of w1 gave other logits than computing it",
    ),
    "RoostWrongBlocks": Case(
        "25m",
        once('roost_worker_arrivals_total{job="w",worker="w1",source="peer",outcome="wrong"}'),
        never('roost_worker_arrivals_total{job="w",worker="w1",source="peer",outcome="wrong"}')
        | {'roost_worker_arrivals_total{job="w",worker="w1",source="peer",outcome="broken"}': growing(9)},
        {"job": "w", "worker": "w1", "source": "peer", "outcome": "wrong"},
        "A block that w1 fetched was not the one it had asked for",
    ),
    "RoostFetchesFail": Case(
        "45m",
        {'roost_worker_arrivals_total{job="w",model="m",worker="w1",source="peer",outcome="broken"}': growing(1),
         'roost_worker_arrivals_total{job="w",model="m",worker="w1",source="peer",outcome="complete"}': growing(50)},
        burst('roost_worker_arrivals_total{job="w",model="m",worker="w1",source="peer",outcome="broken"}', 30, 20, 1)
        | {'roost_worker_arrivals_total{job="w",model="m",worker="w1",source="peer",outcome="slow"}': growing(9)},
        {"job": "w", "model": "m", "worker": "w1"},
        "w1 again and again gets no blocks from another worker",
    ),
    "RoostFetchesRefused": Case(
        "40m",
        {'roost_worker_transfer_refused_total{job="w",model="m",worker="w1",reason="ticket"}': growing(1)},
        once('roost_worker_transfer_refused_total{job="w",model="m",worker="w1",reason="ticket"}')
        | {f'roost_worker_transfer_refused_total{{job="w",model="m",worker="w1",reason="{reason}"}}': growing(9)
           for reason in ("busy", "handshake")},
        {"job": "w", "model": "m", "worker": "w1", "reason": "ticket"},
        "w1 refuses its blocks to other workers: ticket",
    ),
    "RoostDiskOff": Case(
        "10m",
        {'roost_worker_disk_available{job="w",model="m",worker="w1"}': steady(0),
         'roost_worker_disk_bytes{job="w",model="m",worker="w1"}': steady(1e9)},
        {'roost_worker_disk_available{job="w",model="m",worker="w1"}': steady(1),
         'roost_worker_disk_bytes{job="w",model="m",worker="w1"}': steady(1e9),
         'roost_worker_disk_available{job="w",model="m",worker="w2"}': steady(0),
         'roost_worker_disk_bytes{job="w",model="m",worker="w2"}': steady(0)},
        {"job": "w", "model": "m", "worker": "w1"},
        "The disk of w1 is off after errors",
    ),
    "RoostDiskTooSlow": Case(
        "50m",
        {'roost_worker_disk_dropped_blocks_total{job="w",model="m",worker="w1",reason="queue_full"}': growing(100),
         'roost_worker_disk_blocks{job="w",model="m",worker="w1"}': steady(1000)},
        {'roost_worker_disk_dropped_blocks_total{job="w",model="m",worker="w1",reason="queue_full"}': growing(1),
         'roost_worker_disk_dropped_blocks_total{job="w",model="m",worker="w1",reason="reclaimed"}': growing(1000),
         'roost_worker_disk_blocks{job="w",model="m",worker="w1"}': steady(1000)},
        {"job": "w", "model": "m", "worker": "w1"},
        "w1 drops more blocks before its disk than the disk holds",
    ),
    "RoostHitRateFell": Case(
        f"{MINUTES_BEFORE + 60}m",
        hits(80, 10),
        hits(80, 80, prompts_after=400),
        {"job": "r", "model": "m"},
        "The cache hit rate of m is less than half of the day's",
    ),
    "RoostCacheNotKnown": Case(
        "20m",
        {'roost_router_worker_mode{job="r",model="m",worker="w1",mode="predicted"}': steady(1),
         'roost_router_worker_mode{job="r",model="m",worker="w1",mode="exact"}': steady(0)},
        {'roost_router_worker_mode{job="r",model="m",worker="w1",mode="predicted"}': steady(0),
         'roost_router_worker_mode{job="r",model="m",worker="w1",mode="exact"}': steady(1)},
        {"job": "r", "model": "m", "worker": "w1"},
        "A router does not know the cache of w1 exactly",
    ),
    "RoostPredictionsOff": Case(
        "100m",
        {'roost_router_prediction_error_tokens_total{job="r",model="m"}': growing(2500, 120),
         'roost_router_prompt_tokens_total{job="r",model="m"}': growing(10000, 120)},
        {'roost_router_prediction_error_tokens_total{job="r",model="m"}': growing(250, 120),
         'roost_router_prompt_tokens_total{job="r",model="m"}': growing(1000, 120)},
        {"job": "r", "model": "m"},
        "Routers misjudge 25% of the prompt tokens of m",
    ),
    "RoostIndexDrift": Case(
        "65m",
        {'roost_router_index_resyncs_total{job="r",instance="a",reason="digest"}': "0+0x9 1+0x9 2+0x9 3+0x9 4+0x9 5+0x60"},
        once('roost_router_index_resyncs_total{job="r",instance="a",reason="digest"}')
        | {'roost_router_index_resyncs_total{job="r",instance="a",reason="hello"}': growing(1)},
        {"job": "r", "instance": "a", "reason": "digest"},
        "The index of a differs from caches again and again",
    ),
    "RoostIndexFull": Case(
        "40m",
        {'roost_router_index_shed_blocks_total{job="r",instance="a"}': growing(50)},
        {'roost_router_index_shed_blocks_total{job="r",instance="a"}': steady(50)},
        {"job": "r", "instance": "a"},
        "The index of a leaves blocks out because its memory is full",
    ),
    "RoostTargetDown": Case(
        "8m",
        {'up{job="monitoring/roost-worker",instance="a"}': steady(0)},
        {'up{job="roost-router",instance="a"}': "1+0x3 0+0x3 1+0x60", 'up{job="others",instance="b"}': steady(0)},
        {"job": "monitoring/roost-worker", "instance": "a"},
        "Prometheus can not scrape a of monitoring/roost-worker",
    ),
    "RoostLinkPeersRefused": Case(
        "25m",
        once('roost_router_link_refused_peers_total{job="r",reason="unknown_key"}'),
        never('roost_router_link_refused_peers_total{job="r",reason="unknown_key"}'),
        {"job": "r", "reason": "unknown_key"},
        "A peer is refused at the port for workers: unknown_key",
    ),
    "RoostBadMessages": Case(
        "25m",
        once('roost_worker_malformed_messages_total{job="w",instance="a",worker="w1"}')
        | never('roost_router_malformed_messages_total{job="r",instance="b"}'),
        never('roost_worker_malformed_messages_total{job="w",instance="a",worker="w1"}')
        | never('roost_router_malformed_messages_total{job="r",instance="b"}'),
        {"job": "w", "instance": "a"},
        "a got messages that it can not read",
    ),
    "RoostRestarts": Case(
        "30m",
        {'process_start_time_seconds{job="r",instance="a"}': "10+0x5 20+0x5 30+0x5 40+0x20"} | BUILD,
        {'process_start_time_seconds{job="r",instance="a"}': "10+0x10 20+0x30",
         'process_start_time_seconds{job="node",instance="n"}': growing(1)} | BUILD,
        {"job": "r", "instance": "a"},
        "a restarted 3 times in half an hour",
    ),
    "RoostFileDescriptors": Case(
        "20m",
        {'process_open_fds{job="r",instance="a"}': steady(900), 'process_max_fds{job="r",instance="a"}': steady(1000)} | BUILD,
        {'process_open_fds{job="r",instance="a"}': steady(500), 'process_max_fds{job="r",instance="a"}': steady(1000),
         'process_open_fds{job="node",instance="n"}': steady(9), 'process_max_fds{job="node",instance="n"}': steady(10)} | BUILD,
        {"job": "r", "instance": "a"},
        "a has 90% of its file descriptors open",
    ),
    "RoostMixedVersions": Case(
        "180m",
        {f'roost_build_info{{job="w",instance="{version}",version="{version}"}}': steady(1, 240) for version in ("1", "2")},
        {f'roost_build_info{{job="w",instance="{instance}",version="1"}}': steady(1, 240) for instance in ("a", "b")},
        {"job": "w"},
        "w runs 2 different builds",
    ),
    "RoostLedgerNotWritten": Case(
        "25m",
        once('roost_router_ledger_writes_total{job="r",instance="a",outcome="failed"}'),
        never('roost_router_ledger_writes_total{job="r",instance="a",outcome="failed"}')
        | {'roost_router_ledger_writes_total{job="r",instance="a",outcome="written"}': growing(9)},
        {"job": "r", "instance": "a"},
        "a can not write its ledger",
    ),
    "RoostRecordingDrops": Case(
        "25m",
        once('roost_router_recorded_requests_total{job="r",instance="a",outcome="dropped"}'),
        never('roost_router_recorded_requests_total{job="r",instance="a",outcome="dropped"}')
        | {'roost_router_recorded_requests_total{job="r",instance="a",outcome="written"}': growing(9)},
        {"job": "r", "instance": "a"},
        "a drops requests from its recording",
    ),
}  # fmt: skip

RECORDED = {
    "job_model:roost_router_cached_tokens:ratio_rate5m": (
        {'roost_router_cached_tokens_total{job="r",model="m"}': growing(75), 'roost_router_prompt_tokens_total{job="r",model="m"}': growing(100)},
        '{job="r", model="m"}', 0.75),
    "job_model_worker:roost_worker_cached_tokens:ratio_rate5m": (
        {'roost_worker_cached_tokens_total{job="w",model="m",worker="w1"}': growing(20),
         'roost_worker_prompt_tokens_total{job="w",model="m",worker="w1"}': growing(80)},
        '{job="w", model="m", worker="w1"}', 0.25),
    "job_model:roost_worker_saved_prefill_seconds:rate5m": (
        {f'roost_worker_saved_prefill_seconds_total{{job="w",model="m",worker="{w}"}}': growing(30) for w in "ab"},
        '{job="w", model="m"}', 1),
    "job_model:roost_router_prompt_tokens:rate5m": (
        {'roost_router_prompt_tokens_total{job="r",model="m"}': growing(600)}, '{job="r", model="m"}', 10),
    "job_model:roost_router_output_tokens:rate5m": (
        {'roost_router_output_tokens_total{job="r",model="m"}': growing(60)}, '{job="r", model="m"}', 1),
    "job_model:roost_router_generations:rate5m": (generations("stop", 30) | generations("length", 30), '{job="r", model="m"}', 1),
    **{f"job_model:roost_router_failed_generations:ratio_rate{window}": (
        generations("stop", 75) | generations("internal", 25), '{job="r", model="m"}', 0.25) for window in ("5m", "30m", "1h", "6h")},
    **{f"job:roost_router_server_errors:ratio_rate{window}": (
        {'roost_router_requests_total{job="r",route="a",code="200"}': growing(3), 'roost_router_requests_total{job="r",route="b",code="503"}': growing(1)},
        '{job="r"}', 0.25) for window in ("5m", "1h")},
    "job_model:roost_router_ttft_seconds:p99_rate5m": (latency("roost_router_ttft_seconds", slow=False), '{job="r", model="m"}', 0.495),
    "job_model:roost_router_inter_token_seconds:p99_rate5m": (
        latency("roost_router_inter_token_seconds", slow=False), '{job="r", model="m"}', 0.495),
    "job_model_worker:roost_router_worker_requests:rate5m": (sent(60), '{job="r", model="m", worker="w0"}', 1),
    "job_model:roost_router_worker_requests:imbalance_rate5m": (sent(60, 30, 0), '{job="r", model="m"}', 2),
}  # fmt: skip


def rules_of(kind):
    """Name -> rule, of alerts or recorded series."""
    groups = [group for path in RULES for group in yaml.safe_load(path.read_text())["groups"]]
    return {rule[kind]: rule for group in groups for rule in group["rules"] if kind in rule}


def as_input(series):
    return [{"series": name, "values": values} for name, values in series.items()]


def filled_in(text, labels):
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda match: labels[match.group(1)], text)


def alert_tests():
    tests = []
    for name, rule in rules_of("alert").items():
        case = CASES[name]
        expected = {
            "exp_labels": case.labels | rule["labels"],
            "exp_annotations": {
                "summary": case.summary,
                "description": filled_in(rule["annotations"]["description"], case.labels),
                "runbook_url": rule["annotations"]["runbook_url"].replace("{{ $externalLabels.docs_url }}", DOCS),
            },
        }
        for series, alerts in ((case.fires, [expected]), (case.quiet, [])):
            test = {"eval_time": case.at, "alertname": name, "exp_alerts": alerts}
            tests.append({"name": name, "interval": "1m", "input_series": as_input(series), "alert_rule_test": [test],
                          "external_labels": {"docs_url": DOCS}})  # fmt: skip
    return tests


def recorded_tests():
    tests = []
    for name, (series, labels, value) in RECORDED.items():
        test = {"expr": f"round({name}, 0.001)", "eval_time": "30m", "exp_samples": [{"labels": labels, "value": value}]}
        tests.append({"name": name, "interval": "1m", "input_series": as_input(series), "promql_expr_test": [test]})
    return tests


def needed(expr, records):
    """The recorded series that an expression asks for, and those that these ask for."""
    found = {name for name in records if name in expr}
    for name in list(found):
        found |= needed(records[name]["expr"], {other: rule for other, rule in records.items() if other not in found})
    return found


def test_file(folder, number, test):
    """A test with the rules that it needs alone: promtool evaluates all of them in each minute."""
    alerts, records = rules_of("alert"), rules_of("record")
    name = test.pop("name")
    rules = [alerts[name]] if name in alerts else []
    rules = [records[each] for each in sorted(needed(rules[0]["expr"] if rules else name, records))] + rules
    rule_file = folder / f"{number}.rules.yaml"
    rule_file.write_text(yaml.safe_dump({"groups": [{"name": "rules", "rules": rules}]}))
    path = folder / f"{number}.test.yaml"
    path.write_text(yaml.safe_dump({"rule_files": [str(rule_file)], "evaluation_interval": "1m", "tests": [test]}))
    return path


class RulesTest(unittest.TestCase):
    def promtool(self, tests):
        with tempfile.TemporaryDirectory() as folder:
            files = [test_file(pathlib.Path(folder), number, dict(test)) for number, test in enumerate(tests)]
            done = subprocess.run(["promtool", "test", "rules", *files], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_every_alert_has_a_case_and_fires_and_keeps_quiet(self):
        self.assertEqual(set(rules_of("alert")), set(CASES))
        self.promtool(alert_tests())

    def test_a_model_without_a_worker_is_not_hidden_by_another_model(self):
        """Nor is a router that knows no worker at all."""
        rule = rules_of("alert")["RoostNoReadyWorker"]
        series = {'roost_router_active_requests{job="r"}': steady(0)}
        expected = {
            "exp_labels": {"job": "r"} | rule["labels"],
            "exp_annotations": {
                "summary": "No router of r has a ready worker",
                "description": rule["annotations"]["description"],
                "runbook_url": rule["annotations"]["runbook_url"].replace("{{ $externalLabels.docs_url }}", DOCS),
            },
        }
        test = {"eval_time": "10m", "alertname": "RoostNoReadyWorker", "exp_alerts": [expected]}
        self.promtool([{"name": "RoostNoReadyWorker", "interval": "1m", "input_series": as_input(series), "alert_rule_test": [test],
                        "external_labels": {"docs_url": DOCS}}])  # fmt: skip

    def test_every_alert_has_a_section_and_a_row_in_the_runbook(self):
        page = RUNBOOK.read_text()
        rows = {cells[0].strip("` "): [cell.strip() for cell in cells[1:]] for cells in
                (line.strip("|").split("|") for line in page.splitlines() if line.startswith("| `Roost"))}
        sections = dict(re.findall(r"^### (Roost\w+)\n\n(.+?)(?=\n#|\Z)", page, re.M | re.S))
        self.assertEqual(set(rows), set(CASES))
        self.assertEqual(set(sections), set(CASES))
        for name, rule in rules_of("alert").items():
            severity, failure, event = rows[name]
            self.assertEqual(severity, rule["labels"]["severity"], name)
            self.assertTrue(failure and event, f"{name}: what fires it, and what must not")
            self.assertTrue(rule["annotations"]["runbook_url"].endswith(f"/dashboards/runbook.md#{name.lower()}"), name)
            self.assertGreater(len(sections[name]), 60, f"{name}: what to do")

    def test_every_recorded_series_has_its_value(self):
        self.assertEqual(set(rules_of("record")), set(RECORDED))
        self.promtool(recorded_tests())

    def test_a_wrong_expectation_is_found(self):
        [test] = [test for test in recorded_tests() if test["name"] == "job_model:roost_router_generations:rate5m"]
        test["promql_expr_test"][0]["exp_samples"][0]["value"] += 1
        with self.assertRaises(AssertionError):
            self.promtool([test])


if __name__ == "__main__":
    unittest.main()
