#pragma once

#include <sys/types.h>

#include <stop_token>
#include <thread>
#include <vector>

#include "brigade/launch/mailbox.h"

namespace brigade::launch {

/// Kills, on a background thread, the processes that have lost their shim: the descendants of this
/// process that are not below a running shim. Searching /proc until they are gone may take seconds,
/// during which the launcher's loop must not block.
///
/// Thread-safety: one thread.
class Sweep {
 public:
  Sweep() = default;
  /// Cancels a running sweep.
  ~Sweep() = default;
  Sweep(const Sweep&) = delete;
  Sweep& operator=(const Sweep&) = delete;

  /// Starts a sweep that spares the processes in `spared` and their descendants. Start no process
  /// until it has ended. Call it only while no sweep is running.
  void begin(std::vector<pid_t> spared);
  /// Whether a sweep is running.
  bool is_running();
  /// Readable when a sweep has ended.
  int descriptor() const { return ends_.descriptor(); }

 private:
  struct Ended {};
  Mailbox<Ended> ends_;
  bool is_running_ = false;
  std::jthread thread_;  // ends first
};

}  // namespace brigade::launch
