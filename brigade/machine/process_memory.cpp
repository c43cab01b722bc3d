#include "brigade/machine/process_memory.h"

#include <unistd.h>

#include <fstream>
#include <string>

namespace brigade::machine {

// Not getrusage: its peak includes that of the process that started this one.
ProcessMemory process_memory(const std::filesystem::path& status) {
  ProcessMemory memory;
  std::ifstream file(status);
  for (std::string word; file >> word;) {
    std::int64_t* const value = word == "VmRSS:"   ? &memory.resident
                                : word == "VmHWM:" ? &memory.peak
                                                   : nullptr;
    std::int64_t kibibytes = 0;
    if (value != nullptr && file >> kibibytes) *value = kibibytes * 1024;
  }
  return memory;
}

std::int64_t machine_memory() {
  return std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGE_SIZE);
}

}  // namespace brigade::machine
