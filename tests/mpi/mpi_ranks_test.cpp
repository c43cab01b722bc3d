// The program that mpirun runs: the contract of every Communicator over MPI, and what communicators
// between processes do beyond it (brigade/comm/process_communicator_test.cpp). Every process runs
// all tests. Exit code 77: MPI is not built in.
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "brigade/base/error.h"
#include "brigade/comm/local/reduce_kernel.h"
#include "brigade/comm/process_communicator.h"
#include "tests/contract/communicator_contract.h"
#include "tests/contract/tensor_channel_contract.h"
#include "tests/mpi/mpirun_ranks.h"

namespace brigade::comm {
namespace {

using std::chrono::milliseconds;

constexpr int kNotBuiltIn = 77;
constexpr std::int64_t kLarge = 2'500'003;  // several chunks, the last one incomplete

CommunicationOptions over_mpi() {
  return {.transport = Transport::kMpi, .timeout = std::chrono::seconds(60)};
}

/// Values whose sums depend on the order of additions.
at::Tensor values_of(int rank, std::int64_t size) {
  return at::arange(size, at::kDouble)
      .mul(0.37 + rank)
      .sin()
      .mul(rank == 1 ? 1e4 : 1)
      .to(at::kFloat);
}

at::Tensor sum_by_tree(int world_size, std::int64_t size) {
  std::vector<at::Tensor> values;
  for (int rank = 0; rank < world_size; ++rank) values.push_back(values_of(rank, size));
  return combine_by_tree(values, ReduceOp::kSum);
}

/// The processes of this mpirun, while tests run.
class Ranks : public ::testing::Environment {
 public:
  static MpirunRanks& get() { return *slot(); }
  void SetUp() override { slot() = std::make_unique<MpirunRanks>(); }
  void TearDown() override { slot().reset(); }

 private:
  static std::unique_ptr<MpirunRanks>& slot() {
    static std::unique_ptr<MpirunRanks> ranks;
    return ranks;
  }
};

std::vector<std::exception_ptr> run(const MpirunRanks::BodyOfRun& body,
                                    const CommunicationOptions& options = over_mpi()) {
  return Ranks::get().run(options, body);
}

void run_successfully(const MpirunRanks::Body& body,
                      const CommunicationOptions& options = over_mpi()) {
  for (const std::exception_ptr& error :
       run([&](ProcessCommunicator&communicator, RunMembership&) { body(communicator); }, options))
    if (error) std::rethrow_exception(error);
}

void expect_error(const std::exception_ptr& thrown, ErrorCode code,
                  const std::vector<std::string>& mentioned) {
  ASSERT_TRUE(thrown);
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const std::string& text : mentioned)
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

/// The same, for at least one of the waiting ranks: it ends, and the others may see it as lost
/// before they learn the reason.
void expect_error_of_one(const std::vector<std::exception_ptr>& thrown, ErrorCode code,
                         const std::vector<std::string>& mentioned) {
  for (const std::exception_ptr& each : thrown) {
    try {
      if (each) std::rethrow_exception(each);
    } catch (const Error& error) {
      if (error.code() == code) return expect_error(each, code, mentioned);
    }
  }
  FAIL() << "no rank has thrown " << to_string(code);
}

int world_of_mpirun() {
  const char* const size = std::getenv("OMPI_COMM_WORLD_SIZE");
  return size == nullptr ? 1 : std::atoi(size);
}

Implementation implementation() {
  return {.name = "Mpi",
          .run =
              [](int, const Implementation::Body& body) {
                return run(
                    [&](ProcessCommunicator& communicator, RunMembership&) { body(communicator); });
              },
          .world = world_of_mpirun(),
          .are_threads = false,
          .add = [](std::int64_t delta) { return Ranks::get().add(delta); }};
}

INSTANTIATE_TEST_SUITE_P(Communicators, CommunicatorContract, ::testing::Values(implementation()),
                         [](const auto& instance) {
                           return instance.param.name + std::to_string(instance.param.world);
                         });

ChannelImplementation channels() {
  return {.name = "Mpi", .world = world_of_mpirun(), .run = [](int, const auto& body) {
            run([&](ProcessCommunicator&, RunMembership& membership) {
              // The test outlives its channels.
              const std::shared_ptr<cluster::Membership> shared(&membership, [](auto*) {});
              const int rank = membership.self().rank;
              int made = 0;
              const MakeChannel make = [&](int source, const std::vector<int>& receivers,
                                           const TensorChannelOptions& options) {
                return std::make_unique<TensorChannel>(
                    make_channel_group(shared, source, receivers,
                                       "channel" + std::to_string(made++), over_mpi()),
                    options);
              };
              body(rank, make, [&] { membership.lose(rank, "it was killed"); });
            });
          }};
}

INSTANTIATE_TEST_SUITE_P(Channels, TensorChannelContract, ::testing::Values(channels()),
                         [](const auto& instance) {
                           return instance.param.name + std::to_string(instance.param.world);
                         });

TEST(Mpi, ReportsItsTransport) {
  run_successfully([](ProcessCommunicator& communicator) {
    EXPECT_EQ(communicator.transport(), Transport::kMpi);
    communicator.barrier();
  });
}

TEST(Mpi, AStepThatFailedInOneProcessIsAbandonedByAllAndTheNextStepWorks) {
  run_successfully([](ProcessCommunicator& communicator) {
    const bool is_last = communicator.rank() + 1 == communicator.world_size();
    const auto sum_ones = [&] {
      const at::Tensor one = at::full({3}, 1.0);
      communicator.all_reduce({&one, 1}, ReduceOp::kSum)->wait();
      return static_cast<int>(one[0].item<double>());
    };
    for (int step = 0; step < 3; ++step) {
      communicator.progress().begin_step();
      if (step != 1) {
        EXPECT_EQ(sum_ones(), communicator.world_size());
      } else if (is_last) {
        communicator.progress().fail_step("it fell over");
      } else {
        EXPECT_THROW(sum_ones(), StepAbandoned);
      }
      communicator.progress().end_step();
    }
  });
}

TEST(Mpi, AddsByTheTreeFromTensorsBuffersAndBuckets) {
  const at::Tensor expected = sum_by_tree(Ranks::get().world_size(), kLarge);
  run_successfully([&](ProcessCommunicator& communicator) {
    const at::Tensor mine = values_of(communicator.rank(), kLarge);
    const at::Tensor buffer = communicator.make_buffer(kLarge, at::kFloat);
    buffer.copy_(mine);
    communicator.all_reduce({&buffer, 1}, ReduceOp::kSum)->wait();
    EXPECT_TRUE(at::equal(buffer, expected));
    for (const std::int64_t bucket : {kLarge, std::int64_t{400'001}}) {
      const at::Tensor buckets = mine.clone();
      for (std::int64_t at = 0; at < kLarge; at += bucket) {
        const at::Tensor part = buckets.narrow(0, at, std::min(bucket, kLarge - at));
        communicator.all_reduce({&part, 1}, ReduceOp::kSum)->wait();
      }
      EXPECT_TRUE(at::equal(buckets, expected)) << bucket;
    }
  });
}

TEST(Mpi, SubtreesOfUnequalNumbersGiveTheBitsOfAllLeaves) {
  const int world_size = Ranks::get().world_size();
  std::vector<int> sizes(static_cast<std::size_t>(world_size), 1);
  sizes.back() = 3;
  const ReductionBlocks blocks(sizes);
  for (const std::int64_t size : {std::int64_t{300}, kLarge}) {
    const at::Tensor expected = sum_by_tree(world_size + 2, size);
    run_successfully([&](ProcessCommunicator& communicator) {
      std::vector<at::Tensor> sets;
      for (const LeafRange& part : blocks.parts_of(communicator.rank())) {
        std::vector<at::Tensor> leaves;
        for (int leaf = part.begin; leaf < part.end; ++leaf)
          leaves.push_back(values_of(leaf, size));
        sets.push_back(combine_by_tree(leaves, ReduceOp::kSum));
      }
      while (sets.size() < blocks.most_parts()) sets.push_back(sets.front());
      communicator.all_reduce_subtrees(sets, blocks);
      EXPECT_TRUE(at::equal(sets.front(), expected)) << size;
    });
  }
}

TEST(Mpi, GivesTheBitsOfGloo) {
  const auto results_over = [](Transport transport, WireDtype wire) {
    std::vector<at::Tensor> results;
    CommunicationOptions options = over_mpi();
    options.transport = transport;
    options.wire = wire;
    run_successfully(
        [&](ProcessCommunicator& communicator) {
          for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMax}) {
            for (const std::int64_t size : {std::int64_t{3}, std::int64_t{1000}, kLarge}) {
              const at::Tensor buffer = communicator.make_buffer(size, at::kFloat);
              buffer.copy_(values_of(communicator.rank(), size));
              communicator.all_reduce({&buffer, 1}, op)->wait();
              results.push_back(buffer);
            }
          }
        },
        options);
    return results;
  };
  for (const WireDtype wire : {WireDtype::kFull, WireDtype::kBFloat16}) {
    const auto mpi = results_over(Transport::kMpi, wire);
    const auto gloo = results_over(Transport::kGloo, wire);
    ASSERT_EQ(mpi.size(), gloo.size());
    for (std::size_t i = 0; i < mpi.size(); ++i) EXPECT_TRUE(at::equal(mpi[i], gloo[i])) << i;
  }
}

TEST(Mpi, LargeBroadcastsAndUnevenGathersGoInChunks) {
  run_successfully([](ProcessCommunicator& communicator) {
    const int rank = communicator.rank();
    for (int root = 0; root < communicator.world_size(); ++root) {
      const std::vector<at::Tensor> tensors = {at::full({3, kLarge / 3}, rank, at::kDouble),
                                               at::full({7}, rank, at::kInt)};
      communicator.broadcast(tensors, root)->wait();
      EXPECT_EQ(tensors[0].min().item<double>(), root);
      EXPECT_EQ(tensors[0].max().item<double>(), root);
      EXPECT_EQ(tensors[1].min().item<int>(), root);
    }
    const auto all = communicator.all_gather(values_of(rank, 700'000 * rank));
    for (int other = 0; other < communicator.world_size(); ++other)
      EXPECT_TRUE(at::equal(all[other], values_of(other, 700'000 * other)));
  });
}

TEST(Mpi, CountsWhatItSends) {
  run_successfully([](ProcessCommunicator& communicator) {
    const std::int64_t world = communicator.world_size();
    const Traffic before = communicator.traffic();
    const at::Tensor tensor = at::full({world * 100'000}, 1.0F);
    communicator.all_reduce({&tensor, 1}, ReduceOp::kSum)->wait();
    const Traffic after = communicator.traffic();
    EXPECT_EQ(after.collectives, before.collectives + 1);
    EXPECT_EQ(after.bytes_sent - before.bytes_sent, 2 * (world - 1) * 100'000 * 4);
  });
}

TEST(Mpi, ARankThatRefusesACallReleasesTheOthersWithItsReason) {
  const int last = Ranks::get().world_size() - 1;
  const auto thrown = run([&](ProcessCommunicator& communicator, RunMembership&) {
    const bool refuses = communicator.rank() == last;
    const at::Tensor tensor = at::full({2}, 1, refuses ? at::kLong : at::kFloat);
    try {
      communicator.all_reduce({&tensor, 1}, ReduceOp::kMean)->wait();
    } catch (const Error&) {
      if (!refuses) throw;  // the refusing rank does not end: only its report releases the others
    }
  });
  expect_error_of_one(thrown, ErrorCode::kAborted, {"/task:" + std::to_string(last), "Long[2]"});
}

TEST(Mpi, ALostMemberReleasesWaitersAndIsNamed) {
  const int last = Ranks::get().world_size() - 1;
  const at::Tensor tensor = at::full({kLarge}, 1.0F);
  const auto thrown = run([&](ProcessCommunicator& communicator, RunMembership& membership) {
    communicator.all_reduce({&tensor, 1}, ReduceOp::kMean)->wait();
    if (communicator.rank() == last) {  // as if stopped: it holds its communicator, no more
      membership.lose(last, "it was stopped");
      membership.get("released", std::chrono::seconds(60));
      return;
    }
    try {
      for (;;) communicator.all_reduce({&tensor, 1}, ReduceOp::kMean)->wait();
    } catch (const Error&) {
      membership.set("released", "");
      throw;
    }
  });
  for (int rank = 0; rank < last; ++rank)
    expect_error(thrown[rank], ErrorCode::kUnavailable,
                 {"/task:" + std::to_string(last), "it was stopped"});
}

TEST(Mpi, ALateRankIsNamed) {
  if (Ranks::get().world_size() != 2) GTEST_SKIP() << "of several that wait, the first ends it";
  CommunicationOptions options = over_mpi();
  const auto wait_for_it = [](ProcessCommunicator& communicator, RunMembership& membership) {
    communicator.barrier();
    if (communicator.rank() == 1) {
      membership.get("over", std::chrono::seconds(60));
      return;
    }
    try {
      communicator.barrier();
    } catch (const Error&) {
      membership.set("over", "");
      throw;
    }
  };
  options.timeout = milliseconds(3000);  // the start is within it too
  expect_error(run(wait_for_it, options)[0], ErrorCode::kDeadlineExceeded, {"3000 ms", "/task:1"});
}

TEST(Mpi, ARankThatHasLeftIsNotWaitedFor) {
  const int last = Ranks::get().world_size() - 1;
  const auto thrown = run([&](ProcessCommunicator& communicator, RunMembership&) {
    communicator.barrier();
    if (communicator.rank() != last) communicator.barrier();
  });
  expect_error_of_one(thrown, ErrorCode::kFailedPrecondition, {"/task:" + std::to_string(last)});
}

TEST(Mpi, RanksThatDifferFromTheMembershipsAreRefusedNamingBoth) {
  const auto thrown = Ranks::get().run_displaced(
      over_mpi(), [](ProcessCommunicator&, RunMembership&) { FAIL() << "it was made"; });
  const int last = Ranks::get().world_size() - 1;
  expect_error(thrown[0], ErrorCode::kFailedPrecondition,
               {"/task:0", "is rank " + std::to_string(last) + " of "});
  expect_error(thrown[last], ErrorCode::kFailedPrecondition,
               {"/task:" + std::to_string(last), "is rank " + std::to_string(last - 1) + " of "});
}

TEST(Mpi, AfterAFailureTheNextMembershipWorks) {
  run([](ProcessCommunicator& communicator, RunMembership&) {
    EXPECT_THROW((void)communicator.broadcast({}, communicator.rank()), Error);
    EXPECT_THROW(communicator.barrier(), Error);
  });
  run_successfully([](ProcessCommunicator& communicator) { communicator.barrier(); });
}

}  // namespace
}  // namespace brigade::comm

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (!brigade::comm::mpi_is_built_in()) return brigade::comm::kNotBuiltIn;
  ::testing::AddGlobalTestEnvironment(new brigade::comm::Ranks);
  return RUN_ALL_TESTS();
}
