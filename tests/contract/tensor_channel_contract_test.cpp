#include "tests/contract/tensor_channel_contract.h"

#include <ATen/ops/zeros.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include "brigade/cluster/testing/in_memory_membership.h"
#include "brigade/comm/testing/process_threads.h"
#include "brigade/comm/testing/rank_threads.h"

namespace brigade::comm {
namespace {

using RankBody = std::function<void(int, const MakeChannel&, const std::function<void()>&)>;

/// The local groups of a test's channels: both ends get theirs by the same key.
class LocalGroups {
 public:
  using Key = std::tuple<int, std::vector<int>, int>;  // source, receivers, how many before

  ChannelGroup join(int rank, int source, std::vector<int> receivers, int number) {
    std::vector<int> ranks = receivers;
    ranks.push_back(source);
    std::ranges::sort(ranks);
    const auto index_of = [&](int of) {
      return static_cast<int>(std::ranges::find(ranks, of) - ranks.begin());
    };
    const std::lock_guard lock(mutex_);
    Made& made = made_[{source, std::move(receivers), number}];
    if (!made.group) {
      made.group = std::make_shared<LocalGroup>(
          static_cast<int>(ranks.size()), LocalGroupOptions{.timeout = std::chrono::seconds(60),
                                                            .spin = std::chrono::microseconds(0)});
      made.communicators = make_local_communicators(made.group);
    }
    const int own = index_of(rank);
    return {.communicator = std::move(made.communicators[static_cast<std::size_t>(own)]),
            .source = index_of(source),
            .interrupt = [group = made.group, own] { group->abort(own, "it was closed"); }};
  }

 private:
  struct Made {
    std::shared_ptr<LocalGroup> group;
    std::vector<std::unique_ptr<Communicator>> communicators;
  };
  std::mutex mutex_;
  std::map<Key, Made> made_;
};

void run_local(int world, const RankBody& body) {
  LocalGroups groups;
  run_threads(world, [&](int rank) {
    std::map<std::pair<int, std::vector<int>>, int> made;
    const MakeChannel make = [&](int source, const std::vector<int>& receivers,
                                 const TensorChannelOptions& options) {
      const int number = made[{source, receivers}]++;
      return std::make_unique<TensorChannel>(groups.join(rank, source, receivers, number), options);
    };
    EXPECT_NO_THROW(body(rank, make, [] {}));
  });
}

void run_between_processes(Transport transport, int world, const RankBody& body) {
  let_ranks_be_threads();
  const auto memberships = cluster::testing::make_in_memory_memberships(world);
  run_threads(world, [&](int rank) {
    int made = 0;
    const MakeChannel make = [&](int source, const std::vector<int>& receivers,
                                 const TensorChannelOptions& options) {
      return std::make_unique<TensorChannel>(
          make_channel_group(memberships[rank], source, receivers,
                             "channel" + std::to_string(made++), {.transport = transport}),
          options);
    };
    EXPECT_NO_THROW(body(
        rank, make, [&] { cluster::testing::lose(*memberships[rank], rank, "it was killed"); }));
  });
}

std::vector<ChannelImplementation> channel_implementations() {
  std::vector<ChannelImplementation> all;
  for (const int world : {2, 3}) {
    all.push_back({.name = "Local", .world = world, .run = run_local, .has_losses = false});
    for (const Transport transport : {Transport::kSharedMemory, Transport::kGloo}) {
      if (transport == Transport::kGloo && !gloo_is_built_in()) continue;
      all.push_back({.name = transport == Transport::kGloo ? "Gloo" : "SharedMemory",
                     .world = world,
                     .run = [transport](int size, const RankBody& body) {
                       run_between_processes(transport, size, body);
                     }});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Channels, TensorChannelContract,
                         ::testing::ValuesIn(channel_implementations()), [](const auto& instance) {
                           return instance.param.name + std::to_string(instance.param.world);
                         });

/// The error of a receiver whose sender has sent these numbers instead of a message.
Error error_after(std::int64_t kind, std::int64_t num_tensors) {
  constexpr auto kOfTensor = static_cast<std::int64_t>(2 + 2 * TensorChannel::kMaxDimensions);
  constexpr auto kOfMessage = static_cast<std::int64_t>(4 + TensorChannel::kMaxTensors * kOfTensor);
  LocalGroups groups;
  std::optional<Error> received;
  run_threads(2, [&](int rank) {
    ChannelGroup group = groups.join(rank, 0, {1}, 0);
    if (rank == 0) {
      const at::Tensor numbers = at::zeros({kOfMessage}, at::kLong);
      numbers[0] = kind;
      numbers[3] = num_tensors;
      group.communicator->broadcast({&numbers, 1}, 0)->wait();
      return;
    }
    TensorChannel channel(std::move(group), {.timeout = std::chrono::seconds(60)});
    try {
      channel.receive({.step = 0, .number = 0});
    } catch (const Error& error) {
      received = error;
    }
  });
  return received.value_or(Error(ErrorCode::kInternal, "no error"));
}

TEST(TensorChannel, RefusesWhatIsNoMessage) {
  constexpr std::int64_t kTensors = 0;
  constexpr std::int64_t kStepFailed = 2;
  for (const auto& [kind, num_tensors] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {kTensors, 100'000}, {kTensors, -1}, {kStepFailed, 0}, {kStepFailed + 1, 0}}) {
    const Error error = error_after(kind, num_tensors);
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << kind << ", " << num_tensors;
    EXPECT_THAT(error.what(), ::testing::HasSubstr("a description of no message"));
  }
}

}  // namespace
}  // namespace brigade::comm
