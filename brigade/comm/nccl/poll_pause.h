#pragma once

#include <chrono>
#include <thread>

namespace brigade::comm {

/// Waits between two polls of a GPU: not at first, since most collectives are short.
class PollPause {
 public:
  void rest() {
    if (std::chrono::steady_clock::now() - start_ < std::chrono::microseconds(200)) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace brigade::comm
