"""What boards are made of: panels in rows, units, and the queries of several boards."""

from promql import largest_over_mean, rate, ratio

TOKENS_PER_SECOND = "suffix: tokens/s"
BLOCKS_PER_SECOND = "suffix: blocks/s"
CORES = "suffix: cores"

# Fixed colours of what means good or bad, by the value of a label that a legend consists of. All other series keep one
# colour too, by their names.
COLOURS = {
    "outcome": {
        "stop": "green", "length": "blue", "tool_calls": "purple", "client_gone": "#8e8e8e", "overloaded": "orange",
        "rate_limited": "yellow", "unavailable": "red", "internal": "dark-red", "data_loss": "#c4162a",
        "deadline_exceeded": "#e02f44", "model_not_found": "#fa6400", "invalid_argument": "#b877d9",
        # Of Holds.
        "complete": "green", "missing": "blue", "busy": "yellow", "slow": "orange", "broken": "red", "wrong": "dark-red",
        "no_room": "purple", "cancelled": "#8e8e8e", "refused": "#fa6400", "unanswered": "#e02f44",
    },
    "state": {
        "ready": "green", "starting": "blue", "cordoned": "purple", "draining": "yellow", "away": "dark-red", "ejected": "orange", "stalled": "red",
    },
    "code": {
        "200": "green", "204": "semi-dark-green", "400": "blue", "401": "purple", "403": "purple", "404": "#8e8e8e",
        "429": "orange", "499": "#8e8e8e", "500": "dark-red", "503": "red", "504": "#e02f44",
    },
}  # fmt: skip


def panel(title, description, unit, targets, kind="timeseries", **look):
    """`targets`: (legend, query) each. `look`: width, stack, min, max, thresholds as (value, colour)."""
    return {"title": title, "description": description, "unit": unit, "targets": targets, "kind": kind, **look}


def stat(title, description, unit, query, **look):
    return panel(title, description, unit, [(title, query)], kind="stat", width=3, **look)


def row(title, *panels):
    return {"title": title, "panels": panels}


# ---- queries of several boards ----

HIT_RATE = ratio(rate("roost_router_cached_tokens_total"), rate("roost_router_prompt_tokens_total"))
SAVED_PREFILL = rate("roost_worker_saved_prefill_seconds_total")
HIT_RATE_IN_TIME = ratio(SAVED_PREFILL, f"({SAVED_PREFILL} + {rate('roost_worker_computed_prefill_seconds_total')})")
HIT_RATE_BY_MODEL = ratio(
    rate("roost_router_cached_tokens_total", "model"), rate("roost_router_prompt_tokens_total", "model")
)
SHARE_BY_WORKER = (
    f"{rate('roost_router_worker_requests_total', 'model, worker')} / on (model) group_left ()"
    f" ({rate('roost_router_worker_requests_total', 'model')} > 0)"
)
IMBALANCE = largest_over_mean(rate("roost_router_worker_requests_total", "model, worker"), "model")
MISS_REASONS = [("{{reason}}", rate("roost_worker_computed_prompt_tokens_total", "reason"))]
MISS_REASONS_SAY = (
    "Prompt tokens that were computed, by why they were not cached. cold: nobody sent them before. evicted: they were "
    "cached once; a larger pool or another eviction policy keeps them. tail: behind the last full block. in_flight: "
    "another request was computing them. other_salt: cached for another tenant or salt. disabled: the request wanted no cache. "
    "not_arrived: their blocks were to come from another worker and did not."
)
# No certificate is 0.
CERTIFICATE = "(roost_router_tls_certificate_expiry_timestamp_seconds > 0) - time()"
