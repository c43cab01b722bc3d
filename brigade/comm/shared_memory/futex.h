#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace brigade::comm {

/// Sleeps while `word` is `value`, at most for `time`; may return early. Works between processes
/// that share the word's memory.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                std::chrono::milliseconds time);
/// Wakes all threads that sleep on `word`.
void futex_wake(const std::atomic<std::uint32_t>& word);

}  // namespace brigade::comm
