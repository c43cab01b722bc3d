#pragma once

#include <cstdint>
#include <string>

#include "brigade/concurrency/latency_histogram.h"
#include "brigade/ps/client/remote_service.h"
#include "brigade/ps/parameter_service.h"

namespace brigade::ps {

/// Counters of a server since it was started, for its metrics page and its log.
struct ServerCounters {
  std::int64_t pushes = 0;
  std::int64_t duplicates = 0;
  std::int64_t stale = 0;  ///< kSync: gradients that their step's decision does not name
  std::int64_t pulls = 0;
  std::int64_t refused_calls = 0;  ///< of unknown callers, or not allowed to the caller's role
  std::int64_t lost_leases = 0;    ///< of tasks that were silent for too long
};

/// How long a server's work takes.
///
/// Thread-safety: as LatencyHistogram.
struct ServerLatencies {
  concurrency::LatencyHistogram pushes;  ///< until they are on the disk
  concurrency::LatencyHistogram pulls;
  concurrency::LatencyHistogram log_syncs;
};

/// A server's report of its load.
struct ServerMetrics {
  ServerStatus status = {};
  ServerCounters counters = {};
  std::int64_t members = 0;          ///< tasks that hold a lease
  std::int64_t waiting_records = 0;  ///< of the log: those that are not on the disk yet
  std::uint64_t log_bytes = 0;       ///< since the last snapshot
  concurrency::LatencyCounts pushes = {};
  concurrency::LatencyCounts pulls = {};
  concurrency::LatencyCounts log_syncs = {};
};

/// In Prometheus's text format, version 0.0.4.
std::string to_metrics(const ServerMetrics& server, const ServiceLoad& network);

}  // namespace brigade::ps
