#include "brigade/rpc/grpc_threads.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "brigade/base/strings.h"
#include "brigade/rpc/rendezvous.h"

namespace brigade::rpc {
namespace {

// The allocator may reserve this much per thread (glibc: 64 MiB, aligned).
constexpr std::size_t kSpare = std::size_t{128} << 20;

// gRPC 1.51: a pool with a thread a core (2 to 32), queues with one for two cores (2 to 16), timers
// and executors (4); two of Brigade's, and some to spare.
int num_threads() {
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(cores, 2, 32) + std::clamp(cores / 2, 2, 16) + 8;
}

/// Releases the waiting threads in any case.
struct Opener {
  std::latch& gate;
  ~Opener() { gate.count_down(); }
};

/// Besides its stack, a thread that allocates needs address space for its allocator arena. Without
/// this check one of gRPC's threads could take that space later and leave too little for the next
/// stack.
void require_address_space() {
  void* const spare = ::mmap(nullptr, kSpare, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (spare == MAP_FAILED) {
    throw thread_refusal("the address space is too small",
                         std::system_error(errno, std::generic_category()));
  }
  ::munmap(spare, kSpare);
}

}  // namespace

Error thread_refusal(const std::string& how, const std::system_error& error) {
  return Error(ErrorCode::kResourceExhausted, "gRPC, which connects processes, needs ",
               num_threads(), " threads, but ", how, " (", error.code().message(),
               "): raise the limits on processes and threads (ulimit -u) or on the address space "
               "(ulimit -v).");
}

void require_grpc_threads() {
  if (!is_built_in()) return;
  const int needed = num_threads();
  std::latch started(needed);
  std::latch gate(1);
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<std::size_t>(needed));
  const Opener opener{gate};  // before the threads are joined
  const auto stay = [&] {
    const auto memory = std::make_unique<std::vector<char>>(64);
    started.count_down();
    gate.wait();
  };
  try {
    while (static_cast<int>(threads.size()) < needed) threads.emplace_back(stay);
  } catch (const std::system_error& error) {
    throw thread_refusal(base::str_cat("only ", threads.size(), " could be started"), error);
  }
  started.wait();
  require_address_space();
}

}  // namespace brigade::rpc
