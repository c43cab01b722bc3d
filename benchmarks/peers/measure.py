"""What every peer shares: timing in blocks, peak memory, and the one JSON line it prints."""

import json
import pathlib
import statistics
import time

BATCHES = 8  # batches in memory that each replica goes round


def peak_rss_mib(process="self"):
    """The most memory this process, or the one with this id, ever held, in MiB: VmHWM, which counts only since exec."""
    for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/{process}/status has no VmHWM")


def time_blocks(run_steps, steps_per_block, warm_up_seconds, seconds, agree=lambda flag: flag):
    """Runs blocks of steps for about `seconds` after a warm-up; returns each block's seconds.

    `run_steps(n)` trains n steps and returns when they are done. Where several processes must run the
    same number of blocks, `agree(flag)` says for all of them whether to go on.
    """
    end = time.perf_counter() + warm_up_seconds
    while agree(time.perf_counter() < end):
        run_steps(steps_per_block)
    times = []
    end = time.perf_counter() + seconds
    while agree(time.perf_counter() < end or len(times) < 3):
        start = time.perf_counter()
        run_steps(steps_per_block)
        times.append(time.perf_counter() - start)
    return times


def report(name, replicas, batch, steps_per_block, times, peak_mib, **more):
    """Prints the one line that bench.py reads: images a second of the median block."""
    block = statistics.median(times)
    print(json.dumps({
        "name": name,
        "replicas": replicas,
        "images_per_second": replicas * batch * steps_per_block / block,
        "best_images_per_second": replicas * batch * steps_per_block / min(times),
        "step_microseconds": block / steps_per_block * 1e6,
        "blocks": len(times),
        "peak_rss_mib": round(peak_mib, 1),
        **more,
    }), flush=True)
