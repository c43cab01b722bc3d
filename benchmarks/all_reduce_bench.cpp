// How long an all-reduce between processes takes, by size and transport. The "processes" are
// threads over a membership in memory; memory and sockets are the same as between real ones.
//
// usage: all_reduce_bench [PROCESSES]
#include <ATen/Parallel.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "brigade/comm/testing/process_threads.h"

namespace {

using namespace brigade;
using Clock = std::chrono::steady_clock;

struct Times {
  double least = 0;
  double median = 0;
};

/// Microseconds of one call on rank 0.
template <class Call>
Times measure(int repetitions, comm::ProcessCommunicator& communicator, const Call& call) {
  std::vector<double> times;
  for (int i = 0; i < repetitions; ++i) {
    communicator.barrier();
    const auto start = Clock::now();
    call();
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  std::sort(times.begin(), times.end());
  return {times.front(), times[times.size() / 2]};
}

void report(comm::ProcessCommunicator& communicator, const char* where, std::int64_t bytes,
            const at::Tensor& tensor, int repetitions) {
  const Times times = measure(repetitions, communicator, [&] {
    communicator.all_reduce({&tensor, 1}, comm::ReduceOp::kSum)->wait();
  });
  if (communicator.rank() != 0) return;
  std::printf("%-14s %-8s %10lld bytes  least %10.1f us  median %10.1f us\n",
              std::string(to_string(communicator.transport())).c_str(), where,
              static_cast<long long>(bytes), times.least, times.median);
}

void measure_transport(int processes, comm::Transport transport) {
  comm::run_processes_successfully(
      processes, {.transport = transport}, [](comm::ProcessCommunicator& communicator) {
        at::set_num_threads(1);
        for (const std::int64_t bytes : {1'024, 65'536, 1'048'576, 13'000'000}) {
          const int repetitions = bytes > 100'000 ? 100 : 2'000;
          const at::Tensor buffer = communicator.make_buffer(bytes / 4, at::kFloat);
          const at::Tensor tensor = at::full({bytes / 4}, 0.0F);
          report(communicator, "buffer", bytes, buffer, repetitions);
          report(communicator, "tensor", bytes, tensor, repetitions);
        }
      });
}

}  // namespace

int main(int argc, char** argv) {
  const int processes = argc > 1 ? std::atoi(argv[1]) : 2;
  measure_transport(processes, comm::Transport::kSharedMemory);
  if (comm::gloo_is_built_in()) measure_transport(processes, comm::Transport::kGloo);
}
