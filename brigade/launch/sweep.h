#pragma once

#include <sys/types.h>

#include <stop_token>
#include <thread>
#include <vector>

#include "brigade/launch/mailbox.h"

namespace brigade::launch {

/// Kills, on a background thread, the processes that have lost their shim: what is below this
/// process and below no shim that runs. Looking through /proc until they are gone may take seconds,
/// for which the launcher's loop must not stand still.
///
/// Thread-safety: one thread.
class Sweep {
 public:
  Sweep() = default;
  /// Gives up a sweep that is under way.
  ~Sweep() = default;
  Sweep(const Sweep&) = delete;
  Sweep& operator=(const Sweep&) = delete;

  /// Those in `spared`, and what is below them, are left alone; no process may be started until the
  /// end. Only while none is under way.
  void begin(std::vector<pid_t> spared);
  /// Whether one is under way.
  bool is_running();
  /// Readable when one has ended.
  int descriptor() const { return ends_.descriptor(); }

 private:
  struct Ended {};
  Mailbox<Ended> ends_;
  bool is_running_ = false;
  std::jthread thread_;  // ends first
};

}  // namespace brigade::launch
