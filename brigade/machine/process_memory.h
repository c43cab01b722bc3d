#pragma once

#include <cstdint>
#include <filesystem>

namespace brigade::machine {

/// The memory of a process, in bytes; 0 where the system does not report it.
struct ProcessMemory {
  std::int64_t resident = 0;  ///< in memory now
  std::int64_t peak = 0;      ///< the most that was, since the process started
};

/// Reads it from a file like /proc/self/status. Takes microseconds. Thread-safety: any thread.
ProcessMemory process_memory(const std::filesystem::path& status = "/proc/self/status");

/// The memory of this machine, in bytes. Thread-safety: any thread.
std::int64_t machine_memory();

}  // namespace brigade::machine
