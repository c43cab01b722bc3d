#include "brigade/machine/affinity.h"

#include <sched.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "brigade/base/log.h"

namespace brigade::machine {
namespace {

constexpr int kMostCores = 65536;
constexpr int kOwnThread = 0;

// cpu_set_t ends at 1024 cores; this one is as long as it has to be.
class Mask {
 public:
  explicit Mask(int cores)
      : bits_((static_cast<std::size_t>(cores) + kBits - 1) / kBits, CpuBits{}) {}

  void set(int core) { CPU_SET_S(static_cast<std::size_t>(core), bytes(), as_cpu_set()); }
  std::vector<int> cores() const {
    std::vector<int> cores;
    for (std::size_t i = 0; i < bits_.size(); ++i) {
      for (CpuBits left = bits_[i]; left != 0; left &= left - 1)
        cores.push_back(static_cast<int>(i * kBits) + std::countr_zero(left));
    }
    return cores;
  }
  std::size_t bytes() const { return bits_.size() * sizeof(CpuBits); }
  cpu_set_t* as_cpu_set() { return reinterpret_cast<cpu_set_t*>(bits_.data()); }

 private:
  using CpuBits = std::make_unsigned_t<__cpu_mask>;
  static constexpr std::size_t kBits = sizeof(CpuBits) * 8;
  std::vector<CpuBits> bits_;
};

void warn_once_that_pinning_failed(const CoreSet& cores, int error) {
  static std::once_flag warned;
  std::call_once(warned, [&] {
    base::log_warning("The system refused to pin a thread to cores ", cores.to_string(), " (",
                      std::strerror(error), "): continuing without pinning.");
  });
}

}  // namespace

CoreSet thread_affinity() {
  Mask mask(kMostCores);
  if (sched_getaffinity(0, mask.bytes(), mask.as_cpu_set()) != 0) return CoreSet();
  return CoreSet(mask.cores());
}

int thread_number() {
  return gettid();
}

bool set_thread_affinity(const CoreSet& cores) {
  return set_thread_affinity(cores, kOwnThread);
}

bool set_thread_affinity(const CoreSet& cores, int thread) {
  if (cores.empty()) return false;
  Mask mask(cores.cores().back() + 1);
  for (const int core : cores.cores()) mask.set(core);
  if (sched_setaffinity(thread, mask.bytes(), mask.as_cpu_set()) == 0) return true;
  warn_once_that_pinning_failed(cores, errno);
  return false;
}

AffinityScope::AffinityScope(const CoreSet& cores) {
  if (cores.empty()) return;
  CoreSet before = thread_affinity();
  if (set_thread_affinity(cores)) before_ = std::move(before);
}

AffinityScope::~AffinityScope() {
  if (!before_.empty()) set_thread_affinity(before_);
}

}  // namespace brigade::machine
