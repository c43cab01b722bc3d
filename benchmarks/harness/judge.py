"""Alternation runs and pairs into ratios and verdicts."""

from harness.estimate import estimate


def summarize(rows, runs):
    """Per row id: images a second and step time over the rounds, and the highest peak of memory."""
    found = {}
    for row in rows:
        mine = [run for run in runs if run["row"] == row.id]
        if mine:
            found[row.id] = {
                "label": row.label.strip(), "model": row.model, "replicas": mine[0]["replicas"],
                "images_per_second": estimate([run["images_per_second"] for run in mine]),
                "step_microseconds": estimate([run["step_microseconds"] for run in mine]),
                "peak_rss_mib": max(run["peak_rss_mib"] for run in mine),
                "memory_by_device": mine[0].get("memory_by_device", {}),
            }
    return found


def ratio_of_rows(over, under, divisor, runs):
    """Each round's ratio, then their median: what drifts from round to round cancels out. None without results."""
    rates = lambda id: {run["round"]: run["images_per_second"] for run in runs if run["row"] == id}
    above, below = rates(over), rates(under)
    ratios = [above[r] / below[r] / divisor for r in sorted(above) if r in below]
    return estimate(ratios) if ratios else None


def ratio_of_pair(bar, pairs):
    found = pairs.get(bar.pair)
    if not found:
        return None
    ratio = {key: found[key] for key in ("median", "low", "high")}
    ratio["count"] = found.get("pairs", found.get("count"))
    if bar.inverse:
        ratio.update(median=1 / ratio["median"], low=1 / ratio["high"], high=1 / ratio["low"])
    return ratio


def is_met(bar, ratio):
    value = ratio["median"]
    if bar.interval:
        value = ratio["low"] if bar.at_most else ratio["high"]
    return value <= bar.limit if bar.at_most else value >= bar.limit


def judge(bars, runs, pairs, why):
    """One verdict a bar: met, falls short (and why), shown (it has no limit), or not measured."""
    verdicts = []
    for bar in bars:
        ratio = ratio_of_pair(bar, pairs) if bar.pair else ratio_of_rows(*bar.rows, bar.divisor, runs)
        verdict = {"id": bar.id, "text": bar.text, "limit": bar.limit, "at_most": bar.at_most, "ratio": ratio}
        if ratio is None:
            verdict["verdict"] = "not measured"
        elif bar.limit is None:
            verdict["verdict"] = "shown"
        elif is_met(bar, ratio):
            verdict["verdict"] = "met"
        else:
            verdict.update(verdict="falls short", why=why.get(bar.id, ""))
        verdicts.append(verdict)
    return verdicts
