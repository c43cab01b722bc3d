// The contract of every Communicator, for implementations whose ranks can be threads of this
// process, with one to four ranks. A new implementation adds a line to the list.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "brigade/comm/nccl/nccl_communicator.h"
#include "brigade/comm/testing/nccl_wire.h"
#include "brigade/comm/testing/process_threads.h"
#include "brigade/comm/testing/rank_threads.h"
#include "tests/contract/communicator_contract.h"

namespace brigade::comm {
namespace {

using Body = Implementation::Body;

/// A counter in this process.
std::function<std::int64_t(std::int64_t)> make_counter() {
  return [counter = std::make_shared<std::atomic<std::int64_t>>()](std::int64_t delta) {
    return counter->fetch_add(delta) + delta;
  };
}

/// Ranks that are processes, over this transport.
Implementation between_processes(std::string name, Transport transport, int world) {
  const CommunicationOptions options{.transport = transport, .timeout = std::chrono::seconds(60)};
  return {
      .name = std::move(name),
      .run = [options](int size, const Body& body) { return run_processes(size, options, body); },
      .world = world,
      .add = make_counter()};
}

/// Ranks in two processes; the second has one more if their number is odd.
std::vector<std::exception_ptr> run_two_processes(int world, const Body& body) {
  if (world == 1) return run_hierarchy({1}, body);
  return run_hierarchy({world / 2, world - world / 2}, body);
}

/// NCCL communicators on fake GPUs, which do not add in rank order.
std::vector<std::exception_ptr> run_fake_gpus(int world, const Body& body) {
  Wire wire;
  const auto runner = std::make_shared<PromptWire>(wire, world);
  return run_ranks(world, body, [&](std::shared_ptr<LocalGroup> group) {
    std::vector<std::unique_ptr<Communicator>> all;
    for (auto& local : make_local_communicators(std::move(group))) {
      const int rank = local->rank();
      all.push_back(make_nccl_communicator(runner, rank, std::move(local)));
    }
    return all;
  });
}

std::vector<Implementation> implementations() {
  std::vector<Implementation> all;
  for (int world = 1; world <= 4; ++world) {
    all.push_back({.name = "Local",
                   .run = [](int size, const Body& body) { return run_ranks(size, body); },
                   .world = world,
                   .add = make_counter()});
    all.push_back(
        {.name = "NcclOnFakeGpus", .run = run_fake_gpus, .world = world, .add = make_counter()});
    all.push_back(between_processes("SharedMemory", Transport::kSharedMemory, world));
    if (gloo_is_built_in()) all.push_back(between_processes("Gloo", Transport::kGloo, world));
    all.push_back(
        {.name = "Hierarchical", .run = run_two_processes, .world = world, .add = make_counter()});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Communicators, CommunicatorContract,
                         ::testing::ValuesIn(implementations()), [](const auto& instance) {
                           return instance.param.name + std::to_string(instance.param.world);
                         });

}  // namespace
}  // namespace brigade::comm
