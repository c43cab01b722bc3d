#pragma once

#include <sys/resource.h>

#include <cstddef>
#include <cstdlib>

namespace brigade::tuning::testing {

/// Page faults of the calling thread while it takes, fills and frees `bytes` for the second time:
/// almost none if the allocator kept the memory, one for each 4 KiB if it did not.
inline long refaults(std::size_t bytes) {
  const auto faults = [] {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt;
  };
  const auto use = [bytes] {
    void* const memory = std::malloc(bytes);
    auto* const bytes_of =
        static_cast<volatile char*>(memory);  // volatile: the compiler drops unread writes
    for (std::size_t i = 0; i < bytes; i += 4096) bytes_of[i] = 1;
    std::free(memory);
  };
  use();
  const long before = faults();
  use();
  return faults() - before;
}

}  // namespace brigade::tuning::testing
