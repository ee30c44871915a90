"""Parts of queries. Metrics stand in them without selectors: generate.py adds those of the board's variables."""


def _by(labels):
    return f" by ({labels}) " if labels else ""


def _where(condition):
    return f"{{{condition}}}" if condition else ""


def rate(counter, by="", where=""):
    """Per second, added up."""
    return f"sum{_by(by)}(rate({counter}{_where(where)}[$__rate_interval]))"


def now(gauge, by="", where="", how="sum"):
    return f"{how}{_by(by)}({gauge}{_where(where)})"


def quantile(share, histogram, by=""):
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, sum by ({labels}) (rate({histogram}_bucket[$__rate_interval])))"


def quantiles(histogram, shares=(0.5, 0.9, 0.99), prefix=""):
    """Targets, one for each quantile."""
    return [(f"{prefix}p{share * 100:g}", quantile(share, histogram)) for share in shares]


def mean(histogram, by=""):
    return ratio(rate(f"{histogram}_sum", by), rate(f"{histogram}_count", by))


def ratio(part, whole):
    """Nothing, and not NaN, while there is no whole."""
    return f"{part} / ({whole} > 0)"


def largest_over_mean(values, by):
    return f"max by ({by}) ({values}) / (avg by ({by}) ({values}) > 0)"


def of_routers(query):
    """process_* have no label that tells routers from other programs of the same job."""
    return f"{query} and on (job, instance) roost_router_active_requests"
