"""The one table that bench.py prints, from the results that it also writes as JSON."""

from harness.rows import HEADINGS


def _memory(by_device):
    return "" if not by_device else "  " + ", ".join(f"{device} {size:.1f}" for device, size in by_device.items())


def rate_text(value):
    """Images a second: large models make a few only."""
    return f"{value:.0f}" if value >= 100 else f"{value:.2f}"


def _rows(results, model):
    lines = [f"{HEADINGS[model]:<52} {'images/s':>9} {'min - max':>17} {'step us':>9} {'peak MiB':>9}  variables and slots, MiB"]
    for id, row in results["rows"].items():
        if row["model"] != model:
            continue
        rate = row["images_per_second"]
        label = f"{row['label']}, {row['replicas']} replica{'s' if row['replicas'] > 1 else ''}"
        spread = f"{rate_text(rate['min'])} - {rate_text(rate['max'])}"
        lines.append(f"  {label:<50} {rate_text(rate['median']):>9} {spread:>17} "
                     f"{row['step_microseconds']['median']:>9.0f} {row['peak_rss_mib']:>9.0f}"
                     f"{_memory(row.get('memory_by_device'))}")
    for id, entry in results["skipped"].items():
        if entry["model"] == model:
            lines.append(f"  {entry['label']:<50} skipped: {entry['why']}")
    return lines


def _interval(of, prefix=""):
    return f"{of[prefix + 'median']:.4f} [{of[prefix + 'low']:.4f}, {of[prefix + 'high']:.4f}]"


def _pairs(results):
    lines = ["In pairs within one process (ratio of medians, 95 % interval; the same of CPU time)"]
    for pair in results["pairs"].values():
        if "cpu_median" in pair:
            more = f", a save takes {pair['save_milliseconds']:.1f} ms of a step" if "save_milliseconds" in pair else ""
            if "subject_milliseconds" in pair:
                more = f", {pair['subject_milliseconds']:.1f} ms and {pair['base_milliseconds']:.1f} ms"
            lines.append(f"  {pair['text']:<62} {_interval(pair)}   CPU {_interval(pair, 'cpu_')}, "
                         f"{pair['pairs']} pairs{more}")
    return lines if len(lines) > 1 else []


def _turns(results):
    lines = ["Alternating with a peer's process (ratio of medians, 95 % interval): MNIST CNN with Adam's slots, warm cache"]
    for pair in results["pairs"].values():
        if "ours_milliseconds" in pair:
            lines.append(f"  {pair['text']:<62} {_interval(pair)}   {pair['ours_milliseconds']:.1f} ms and "
                         f"{pair['theirs_milliseconds']:.1f} ms, {pair['pairs']} pairs")
    return lines if len(lines) > 1 else []


def _accuracies(results):
    lines = ["Accuracy on the test split of Fashion-MNIST, %, by seed"]
    for pair in results["pairs"].values():
        if "ours_accuracy" in pair:
            ours, base = (", ".join(f"{value:.2f}" for value in pair[key]) for key in ("ours_accuracy", "base_accuracy"))
            lines.append(f"  {pair['text']:<62} {pair['median']:.2f} points [{pair['low']:.2f}, {pair['high']:.2f}]   {ours}; {pair['base_name']} {base}")
    return lines if len(lines) > 1 else []


def _trade(results):
    if not results["trade"]:
        return []
    phases = ["input", "compute", "wait", "communication", "update"]
    lines = ["Two replicas that learn from JPEG files decoded meanwhile, by the number of decoding threads (alternating); fractions of a step, %",
             f"  {'':<40} {'examples/s':>10} {'95 % interval':>17}  " + "  ".join(phases)]
    for entry in results["trade"]:
        spread = f"{entry['low']:.0f} - {entry['high']:.0f}"
        shares = "  ".join(f"{100 * entry[phase]:>{len(phase)}.1f}" for phase in phases)
        label = f"{entry['decoding']}: {entry['threads']}"
        lines.append(f"  {label:<40} {entry['examples_per_second']:>10.0f} {spread:>17}  {shares}")
    return lines


def _bars(results):
    lines = [f"{'Bars':<56} {'limit':>8} {'median':>8}  interval"]
    for bar in results["bars"]:
        limit = "-" if bar["limit"] is None else ("<= " if bar["at_most"] else ">= ") + f"{bar['limit']:g}"
        if bar["ratio"]:
            ratio = bar["ratio"]
            figure = f"{ratio['median']:>8.3f}  [{ratio['low']:.3f}, {ratio['high']:.3f}]"
        else:
            figure = f"{'-':>8}"
        why = f": {bar['why']}" if bar.get("why") else ""
        lines.append(f"  {bar['text']:<54} {limit:>8} {figure}  {bar['verdict']}{why}")
    return lines


def render(results):
    machine = results["machine"]
    head = [f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']:.0f} GiB, {machine['system']}",
            f"{results['mode']}, {results['rounds']} rounds of {results['seconds']:g} s; "
            + ", ".join(f"{module} {version}" for module, version in results["versions"].items())]
    if machine["load_before"] > 0.5:
        head.append(f"The machine was busy before we began (load {machine['load_before']:.1f}): these results are rough.")
    models = {row["model"] for row in results["rows"].values()} | {s["model"] for s in results["skipped"].values()}
    parts = [head] + [_rows(results, model) for model in HEADINGS if model in models]
    parts += [_pairs(results), _turns(results), _accuracies(results), _trade(results), _bars(results)]
    return "\n\n".join("\n".join(part) for part in parts if part)
