#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace brigade::ps {

/// When the values that a worker has were read from each server, for `Push::read_at`. A server's
/// step counts the pushes of all workers; the worker's own pushes since the reading are left out.
///
/// Thread-safety: one thread at a time for each server.
class ReadMoments {
 public:
  ReadMoments() = default;
  explicit ReadMoments(int servers) : reads_(static_cast<std::size_t>(servers)) {}

  /// All values of a server were read at its step `step`, after `own` pushes of this worker.
  void record(int server, std::int64_t step, std::int64_t own);
  /// Rows were read from a server of which this worker has nothing else. If there are several such
  /// readings after a `record`, the first counts.
  void record_rows(int server, std::int64_t step, std::int64_t own);
  /// The step with whose values this worker computes its next push, after `own` pushes: as if its
  /// own pushes since then were before it. Unset if nothing was read.
  std::optional<std::int64_t> read_at(int server, std::int64_t own) const;

 private:
  struct Reading {
    std::int64_t step = 0;
    std::int64_t own = 0;
    bool are_rows = false;
  };
  std::vector<std::optional<Reading>> reads_;  // [server]
};

}  // namespace brigade::ps
