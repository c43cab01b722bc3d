// What communicators between processes do beyond the contract of every Communicator, which
// tests/contract checks. The processes are threads over a membership in memory.
#include "brigade/comm/process_communicator.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <mutex>
#include <thread>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/comm/local/local_group.h"
#include "brigade/comm/local/reduce_kernel.h"
#include "brigade/comm/testing/process_threads.h"
#include "brigade/comm/testing/rank_threads.h"

namespace brigade::comm {
namespace {

constexpr std::int64_t kLarge = 700'003;  // several chunks, the last one incomplete

CommunicationOptions over(Transport transport) {
  return {.transport = transport, .timeout = std::chrono::seconds(60)};
}

/// Values whose sums depend on the order of additions.
at::Tensor values_of(int rank, std::int64_t size, at::ScalarType dtype = at::kFloat) {
  return at::arange(size, at::kDouble).mul(0.37 + rank).sin().mul(rank == 1 ? 1e4 : 1).to(dtype);
}

/// Error of the call; nothing if it did not throw one.
std::optional<Error> error_of(const std::exception_ptr& thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

bool mentions(const std::optional<Error>& error, std::string_view text) {
  return error && std::string_view(error->what()).find(text) != std::string_view::npos;
}

TEST(Transport, IsReadAsItIsWritten) {
  for (const Transport transport : {Transport::kAuto, Transport::kSharedMemory, Transport::kGloo,
                                    Transport::kMpi, Transport::kNccl})
    EXPECT_EQ(parse_transport(to_string(transport)), transport);
  EXPECT_EQ(parse_transport("tcp"), Transport::kGloo);
  EXPECT_THROW(parse_transport("pigeon"), Error);
}

TEST(ProcessCommunicator, SharedMemoryBetweenHostsIsRefused) {
  const auto memberships = cluster::testing::make_in_memory_memberships(2, {"a", "b"});
  try {
    make_process_communicator(memberships[0], over(Transport::kSharedMemory));
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("host b"), std::string::npos) << error.what();
  }
}

/// A membership that is another one, but for what derived classes change.
class WrappedMembership : public cluster::Membership {
 public:
  explicit WrappedMembership(std::shared_ptr<cluster::Membership> real) : real_(std::move(real)) {}

  const cluster::Member& self() const override { return real_->self(); }
  const std::vector<cluster::Member>& members() const override { return real_->members(); }
  int generation() const override { return real_->generation(); }
  void set(std::string_view key, std::string_view value) override { real_->set(key, value); }
  std::string get(std::string_view key, std::chrono::milliseconds timeout) override {
    return real_->get(key, timeout);
  }
  std::int64_t add(std::string_view key, std::int64_t delta) override {
    return real_->add(key, delta);
  }
  std::int64_t append(std::string_view key, std::string_view value) override {
    return real_->append(key, value);
  }
  void barrier(std::string_view name, std::chrono::milliseconds timeout) override {
    real_->barrier(name, timeout);
  }
  std::optional<cluster::LostMember> lost() const override { return real_->lost(); }
  concurrency::CancelToken lost_token() const override { return real_->lost_token(); }
  void leave() noexcept override { real_->leave(); }

 private:
  const std::shared_ptr<cluster::Membership> real_;
};

/// Changes the nonce of rank 0's segment, so that it seems to be another process's memory.
class WrongNonceMembership final : public WrappedMembership {
 public:
  using WrappedMembership::WrappedMembership;

  std::string get(std::string_view key, std::chrono::milliseconds timeout) override {
    const std::string value = WrappedMembership::get(key, timeout);
    if (!key.ends_with("/segment")) return value;
    return value.substr(0, value.rfind(' ')) + " 1";
  }
};

/// Knows early that the last member is lost.
class EarlyMembership final : public WrappedMembership {
 public:
  using WrappedMembership::WrappedMembership;

  std::optional<cluster::LostMember> lost() const override {
    if (!is_lost) return std::nullopt;
    return cluster::LostMember{.member = members().back(), .reason = "it was killed"};
  }

  std::atomic<bool> is_lost = false;
};

TEST(ProcessCommunicator, MemoryWithAnotherNonceIsNotShared) {
  for (const Transport transport : {Transport::kAuto, Transport::kSharedMemory}) {
    let_ranks_be_threads();
    const auto memberships = cluster::testing::make_in_memory_memberships(2);
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        std::shared_ptr<cluster::Membership> membership = memberships[rank];
        if (rank == 1) membership = std::make_shared<WrongNonceMembership>(membership);
        try {
          const auto communicator = make_process_communicator(membership, over(transport));
          EXPECT_EQ(communicator->transport(), Transport::kGloo);
          EXPECT_EQ(transport, Transport::kAuto);
          const at::Tensor tensor = at::full({2}, 1.0);
          communicator->all_reduce({&tensor, 1}, ReduceOp::kSum)->wait();
          EXPECT_EQ(tensor[1].item<double>(), 2);
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::kUnavailable) << error.what();
          EXPECT_TRUE(transport == Transport::kSharedMemory || !gloo_is_built_in());
          EXPECT_TRUE(mentions(error, "another process's memory")) << error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(ProcessCommunicator, NcclIsNoTransportOfHostValues) {
  const auto membership = cluster::testing::make_in_memory_memberships(1)[0];
  EXPECT_THROW(make_process_communicator(membership, over(Transport::kNccl)), Error);
}

TEST(ProcessCommunicator, OptionsThatCannotWorkAreRefused) {
  const auto membership = cluster::testing::make_in_memory_memberships(1)[0];
  using std::chrono::milliseconds;
  EXPECT_THROW(make_process_communicator(membership, {.bytes_per_pack = -1}), Error);
  EXPECT_THROW(make_process_communicator(membership, {.timeout = milliseconds(0)}), Error);
  EXPECT_THROW(make_process_communicator(membership, {.slow_after = milliseconds(-1)}), Error);
}

class OfProcesses : public ::testing::TestWithParam<Transport> {
 protected:
  void run(int world_size, const std::function<void(ProcessCommunicator&)>& body) const {
    run_processes_successfully(world_size, over(GetParam()), body);
  }
};

TEST_P(OfProcesses, ReportTheirTransport) {
  run(2, [](ProcessCommunicator& communicator) {
    EXPECT_EQ(communicator.transport(), GetParam());
    communicator.barrier();
  });
}

TEST_P(OfProcesses, GiveTheBitsOfThreadsInEveryDtypeAndOperation) {
  for (const at::ScalarType dtype :
       {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMax, ReduceOp::kMin}) {
      if (op == ReduceOp::kMean && dtype == at::kLong) continue;
      at::Tensor expected;
      run_ranks_successfully(3, [&](Communicator& communicator) {
        const at::Tensor tensor = values_of(communicator.rank(), 40'001, dtype);
        communicator.all_reduce({&tensor, 1}, op)->wait();
        if (communicator.rank() == 0) expected = tensor;
      });
      run(3, [&](ProcessCommunicator& communicator) {
        const at::Tensor tensor = values_of(communicator.rank(), 40'001, dtype);
        communicator.all_reduce({&tensor, 1}, op)->wait();
        EXPECT_TRUE(at::equal(tensor, expected)) << dtype << " " << to_string(op);
      });
    }
  }
}

TEST_P(OfProcesses, AddHalfOfBuffersInFloat32AndRoundOnce) {
  run(3, [](ProcessCommunicator& communicator) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean}) {
      const at::Tensor buffer = communicator.make_buffer(kLarge, at::kHalf);
      buffer.fill_(op == ReduceOp::kMean ? 40'000 : communicator.rank() == 0 ? 2048 : 1);
      communicator.all_reduce({&buffer, 1}, op)->wait();
      const double wanted = op == ReduceOp::kMean ? 40'000 : 2050;
      EXPECT_TRUE(at::equal(buffer, at::full({kLarge}, wanted, at::kHalf))) << to_string(op);
    }
  });
}

TEST_P(OfProcesses, GiveTheSameBitsFromBuffersTensorsAndBuckets) {
  const at::Tensor expected = (values_of(0, kLarge) + values_of(1, kLarge)) + values_of(2, kLarge);
  run(3, [&](ProcessCommunicator& communicator) {
    const at::Tensor mine = values_of(communicator.rank(), kLarge);
    const at::Tensor buffer = communicator.make_buffer(kLarge, at::kFloat);
    buffer.copy_(mine);
    communicator.all_reduce({&buffer, 1}, ReduceOp::kSum)->wait();
    EXPECT_TRUE(at::equal(buffer, expected));

    const at::Tensor whole = mine.clone();
    communicator.all_reduce({&whole, 1}, ReduceOp::kSum)->wait();
    EXPECT_TRUE(at::equal(whole, expected));

    for (const std::int64_t bucket : {100'000, 400'001}) {
      const at::Tensor buckets = mine.clone();
      for (std::int64_t at = 0; at < kLarge; at += bucket) {
        const at::Tensor part = buckets.narrow(0, at, std::min(bucket, kLarge - at));
        communicator.all_reduce({&part, 1}, ReduceOp::kSum)->wait();
      }
      EXPECT_TRUE(at::equal(buckets, expected)) << bucket;
    }
  });
}

TEST_P(OfProcesses, ManyTensorsInBuffersAreReducedTogether) {
  run(2, [](ProcessCommunicator& communicator) {
    const at::Tensor a = communicator.make_buffer(1000, at::kFloat);
    const at::Tensor b = communicator.make_buffer(10, at::kDouble);
    EXPECT_EQ(a.sum().item<double>(), 0);
    a.fill_(communicator.rank() + 1);
    b.fill_(communicator.rank() + 5);
    const std::vector<at::Tensor> tensors = {a.narrow(0, 10, 90), b, a.narrow(0, 500, 500)};
    communicator.all_reduce(tensors, ReduceOp::kMean)->wait();
    EXPECT_EQ(a[0].item<double>(), communicator.rank() + 1);
    EXPECT_EQ(a[10].item<double>(), 1.5);
    EXPECT_EQ(a[100].item<double>(), communicator.rank() + 1);
    EXPECT_EQ(a[999].item<double>(), 1.5);
    EXPECT_EQ(b[9].item<double>(), 5.5);
  });
}

TEST_P(OfProcesses, BuffersOfOneRankAreReducedWithTensorsOfAnother) {
  run(2, [](ProcessCommunicator& communicator) {
    at::Tensor buffer = communicator.make_buffer(kLarge, at::kFloat);
    const at::Tensor tensor =
        communicator.rank() == 0 ? buffer.fill_(1.0) : at::full({kLarge}, 2.0F);
    communicator.all_reduce({&tensor, 1}, ReduceOp::kSum)->wait();
    EXPECT_EQ(tensor.min().item<float>(), 3);
    EXPECT_EQ(tensor.max().item<float>(), 3);
    // At another offset in the buffer on each rank.
    const at::Tensor part = buffer.narrow(0, 10 * communicator.rank(), 100);
    part.fill_(communicator.rank() + 1.0);
    communicator.all_reduce({&part, 1}, ReduceOp::kSum)->wait();
    EXPECT_EQ(part.sum().item<float>(), 300);
  });
}

TEST_P(OfProcesses, ABufferLivesAsLongAsItsTensorsAndDiesWithThem) {
  run(2, [](ProcessCommunicator& communicator) {
    for (int round = 0; round < 5; ++round) {
      at::Tensor view = communicator.make_buffer(1000, at::kFloat).narrow(0, 3, 7);
      view.fill_(round + communicator.rank());
      communicator.all_reduce({&view, 1}, ReduceOp::kSum)->wait();
      EXPECT_EQ(view.sum().item<float>(), 7 * (2 * round + 1));
    }
    EXPECT_EQ(communicator.make_buffer(0, at::kFloat).numel(), 0);
  });
}

TEST_P(OfProcesses, ReduceBroadcastAndGatherWhatIsNotContiguous) {
  run(2, [](ProcessCommunicator& communicator) {
    const int rank = communicator.rank();
    const at::Tensor storage = at::full({4, 6}, rank + 1.0);
    const at::Tensor columns = storage.narrow(1, 1, 2);
    communicator.all_reduce({&columns, 1}, ReduceOp::kSum)->wait();
    EXPECT_EQ(storage.sum().item<double>(), 8 * 3 + 16 * (rank + 1));
    const at::Tensor other = storage.narrow(1, 5, 1);
    communicator.broadcast({&other, 1}, 1)->wait();
    EXPECT_EQ(other.sum().item<double>(), 8);
    EXPECT_EQ(communicator.all_gather(columns)[1 - rank].sum().item<double>(), 24);
    const at::Tensor leaf = at::full({3}, 2.0).set_requires_grad(true);
    communicator.all_reduce({&leaf, 1}, ReduceOp::kMean)->wait();
    EXPECT_EQ(leaf.sum().item<double>(), 6);
  });
}

TEST_P(OfProcesses, LargeBroadcastsAndUnevenGathersGoInChunks) {
  run(3, [](ProcessCommunicator& communicator) {
    const int rank = communicator.rank();
    const std::vector<at::Tensor> tensors = {at::full({3, kLarge / 3}, rank, at::kDouble),
                                             at::full({7}, rank, at::kInt)};
    communicator.broadcast(tensors, 2)->wait();
    EXPECT_EQ(tensors[0].min().item<double>(), 2);
    EXPECT_EQ(tensors[1].min().item<int>(), 2);
    const at::Tensor buffer = communicator.make_buffer(1000, at::kFloat);
    buffer.fill_(rank);
    communicator.broadcast({&buffer, 1}, 1)->wait();
    EXPECT_EQ(buffer.sum().item<float>(), 1000);
    const auto all = communicator.all_gather(values_of(rank, 300'000 * rank));
    for (int other = 0; other < 3; ++other)
      EXPECT_TRUE(at::equal(all[other], values_of(other, 300'000 * other)));
  });
}

TEST_P(OfProcesses, AnErrorNamesBothShapesOrBothCallsOnEveryRank) {
  const auto expect_all = [](const std::vector<std::exception_ptr>& thrown, ErrorCode code,
                             std::string_view one, std::string_view other) {
    for (const auto& each : thrown) {
      const auto error = error_of(each);
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), code) << error->what();
      EXPECT_TRUE(mentions(error, one) && mentions(error, other)) << error->what();
    }
  };
  expect_all(run_processes(2, over(GetParam()),
                           [](ProcessCommunicator& communicator) {
                             const std::vector<at::Tensor> tensors = {
                                 at::full({1}, 1.0F), at::full({2 + communicator.rank()}, 1.0F)};
                             communicator.all_reduce(tensors, ReduceOp::kSum)->wait();
                           }),
             ErrorCode::kInvalidArgument, "tensor 1 is Float[", "and Float[");
  expect_all(run_processes(2, over(GetParam()),
                           [](ProcessCommunicator& communicator) {
                             communicator.make_buffer(
                                 4, communicator.rank() == 0 ? at::kFloat : at::kLong);
                           }),
             ErrorCode::kInvalidArgument, "Float[4]", "Long[4]");
  expect_all(run_processes(2, over(GetParam()),
                           [](ProcessCommunicator& communicator) {
                             if (communicator.rank() == 0) return communicator.barrier();
                             communicator.all_gather(at::full({1}, 1));
                           }),
             ErrorCode::kFailedPrecondition, "barrier", "all_gather");
}

TEST_P(OfProcesses, ARankThatRefusesACallReleasesTheOthersWithItsReason) {
  const auto thrown = run_processes(2, over(GetParam()), [](ProcessCommunicator& communicator) {
    const at::Tensor tensor = at::full({2}, 1, communicator.rank() == 0 ? at::kFloat : at::kLong);
    try {
      communicator.all_reduce({&tensor, 1}, ReduceOp::kMean)->wait();
    } catch (const Error& error) {
      if (communicator.rank() == 0) throw;
      // This rank does not end: only its report can release the others.
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    }
  });
  const auto error = error_of(thrown[0]);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kAborted);
  EXPECT_TRUE(mentions(error, "/task:1") && mentions(error, "Long[2]")) << error->what();
}

TEST_P(OfProcesses, AfterAFailureOneKeepsThrowingAndOneOfTheNextMembershipWorks) {
  run_processes(2, over(GetParam()), [](ProcessCommunicator& communicator) {
    EXPECT_THROW((void)communicator.broadcast({}, communicator.rank()), Error);
    EXPECT_THROW(communicator.barrier(), Error);
  });
  run(2, [](ProcessCommunicator& communicator) { communicator.barrier(); });
}

/// Makes a step of one reduction, before which rank `failing` fails. Returns its StepAbandoned.
std::optional<StepAbandoned> step_with(ProcessCommunicator& communicator, int failing, float& sum) {
  StepProgress& progress = communicator.progress();
  progress.begin_step();
  std::optional<StepAbandoned> abandoned;
  if (communicator.rank() == failing) {
    progress.fail_step("it fell over");
  } else {
    try {
      const at::Tensor value = at::full({5}, 1.0F + static_cast<float>(progress.step()));
      communicator.all_reduce({&value, 1}, ReduceOp::kSum)->wait();
      sum = value[4].item<float>();
    } catch (const StepAbandoned& error) {
      abandoned = error;
      EXPECT_THROW(communicator.barrier(), StepAbandoned);
    }
  }
  progress.end_step();
  return abandoned;
}

TEST_P(OfProcesses, AFailureInAStepEndsItForAllRanksAndTheNextStepWorks) {
  for (const int failing : {0, 2}) {
    run(3, [&](ProcessCommunicator& communicator) {
      for (int step = 0; step < 8; ++step) {
        float sum = -1;
        // Twice in a row: the second failure is not known when the first one is reported.
        const bool fails = step == 3 || step == 4;
        // A rank whose step number went back is not behind the others.
        if (step == 4 && communicator.rank() == failing) communicator.progress().move_to(1);
        if (step == 5) communicator.progress().move_to(2);
        const float number = 1.0F + static_cast<float>(communicator.progress().step());
        const auto abandoned = step_with(communicator, fails ? failing : -1, sum);
        if (!fails) {
          EXPECT_EQ(sum, 3.0F * number);
        } else if (communicator.rank() != failing) {
          ASSERT_TRUE(abandoned);
          EXPECT_EQ(abandoned->step(), step);
          EXPECT_EQ(abandoned->failed_ranks(), std::vector{failing});
          EXPECT_EQ(abandoned->code(), ErrorCode::kAborted);
          EXPECT_TRUE(mentions(*abandoned, "/task:" + std::to_string(failing)))
              << abandoned->what();
          EXPECT_TRUE(mentions(*abandoned, "it fell over")) << abandoned->what();
        }
      }
    });
  }
}

TEST_P(OfProcesses, AFailureAfterTheStepsLastCollectiveEndsNothing) {
  run(2, [&](ProcessCommunicator& communicator) {
    for (int step = 0; step < 3; ++step) {
      communicator.progress().begin_step();
      communicator.barrier();
      if (communicator.rank() == 1) communicator.progress().fail_step("too late");
      communicator.progress().end_step();
    }
    communicator.barrier();
  });
}

using RankNumbers = std::vector<std::int64_t>;

TEST_P(OfProcesses, CallsCarryANumberOfEachRankOnceAllKnowTheirs) {
  run(3, [](ProcessCommunicator& communicator) {
    const int rank = communicator.rank();
    int calls = 0;
    const auto number =
        communicator.piggyback(PiggybackUse::kInput, [&]() -> std::optional<std::int64_t> {
          ++calls;
          if (rank == 2 && calls % 2 == 1) return std::nullopt;
          return 10 * rank - 7 + calls;
        });
    const std::int64_t before = communicator.traffic().collectives;
    communicator.barrier();
    EXPECT_EQ(number->by_rank(), nullptr) << "rank 2 did not know its number";
    const at::Tensor one = at::full({1}, 1.0F);
    communicator.all_reduce({&one, 1}, ReduceOp::kSum)->wait();
    ASSERT_NE(number->by_rank(), nullptr);
    EXPECT_EQ(*number->by_rank(), (RankNumbers{-5, 5, 15}));
    communicator.barrier();
    EXPECT_EQ(*number->by_rank(), (RankNumbers{-5, 5, 15})) << "rank 2 did not know its number";
    communicator.barrier();
    EXPECT_EQ(*number->by_rank(), (RankNumbers{-3, 7, 17})) << "those of the latest such call";
    EXPECT_EQ(communicator.traffic().collectives, before + 4);
  });
}

TEST_P(OfProcesses, CallsCarryANumberOfEachUse) {
  run(2, [](ProcessCommunicator& communicator) {
    const int rank = communicator.rank();
    const auto input = communicator.piggyback(PiggybackUse::kInput, [rank] { return rank; });
    const auto stop = communicator.piggyback(PiggybackUse::kStop, [rank] { return 10 * rank; });
    communicator.barrier();
    ASSERT_NE(input->by_rank(), nullptr);
    ASSERT_NE(stop->by_rank(), nullptr);
    EXPECT_EQ(*input->by_rank(), (RankNumbers{0, 1}));
    EXPECT_EQ(*stop->by_rank(), (RankNumbers{0, 10}));
    // Each has its own serial: a rank that has made one more input still knows the others' stops.
    if (rank == 1) (void)communicator.piggyback(PiggybackUse::kInput, [] { return 2; });
    const auto next = communicator.piggyback(PiggybackUse::kStop, [rank] { return 20 * rank; });
    const auto lost = communicator.piggyback(PiggybackUse::kInput, [] { return 3; });
    communicator.barrier();
    EXPECT_EQ(lost->by_rank(), nullptr);
    ASSERT_NE(next->by_rank(), nullptr);
    EXPECT_EQ(*next->by_rank(), (RankNumbers{0, 20}));
  });
}

TEST_P(OfProcesses, NoRankLearnsNumbersThatOneHasDroppedOrReplaced) {
  run(2, [](ProcessCommunicator& communicator) {
    const auto carry = [&](std::int64_t value) {
      return communicator.piggyback(PiggybackUse::kStop, [value] { return value; });
    };
    auto dropped = carry(1);
    if (communicator.rank() == 1) dropped = nullptr;
    communicator.barrier();
    if (dropped) EXPECT_EQ(dropped->by_rank(), nullptr);
    const auto replaced = carry(2);
    const auto latest = carry(3);
    communicator.barrier();
    EXPECT_EQ(replaced->by_rank(), nullptr);
    ASSERT_NE(latest->by_rank(), nullptr);
    EXPECT_EQ(*latest->by_rank(), (RankNumbers{3, 3}));
    // A rank that has made one more sends another than the rest.
    if (communicator.rank() == 1) (void)carry(4);
    const auto other = carry(5);
    communicator.barrier();
    EXPECT_EQ(other->by_rank(), nullptr);
    const auto last = carry(6);
    communicator.barrier();
    ASSERT_NE(last->by_rank(), nullptr) << "after that they are together again";
    EXPECT_EQ(*last->by_rank(), (RankNumbers{6, 6}));
  });
}

TEST_P(OfProcesses, AStepThatAllAbandonCarriesNothing) {
  run(2, [](ProcessCommunicator& communicator) {
    StepProgress& progress = communicator.progress();
    progress.begin_step();
    const auto number = communicator.piggyback(PiggybackUse::kInput, [] { return 7; });
    if (communicator.rank() == 1) {
      progress.fail_step("it fell over");
    } else {
      EXPECT_THROW(communicator.barrier(), StepAbandoned);
      EXPECT_EQ(number->by_rank(), nullptr);
    }
    progress.end_step();
    communicator.barrier();
    ASSERT_NE(number->by_rank(), nullptr);
    EXPECT_EQ(*number->by_rank(), (RankNumbers{7, 7}));
  });
}

TEST_P(OfProcesses, ARankThatFailedAndLeavesReportsWhy) {
  const auto thrown = run_processes(2, over(GetParam()), [](ProcessCommunicator& communicator) {
    communicator.progress().begin_step();
    if (communicator.rank() == 0) return communicator.barrier();
    communicator.progress().fail_step("it fell over");
    communicator.progress().end_step();
  });
  EXPECT_FALSE(thrown[1]);
  const auto error = error_of(thrown[0]);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kAborted) << error->what();
  EXPECT_TRUE(mentions(error, "/task:1") && mentions(error, "it fell over")) << error->what();
}

/// Expects a StepMismatch on both ranks if rank 1 calls `otherwise` before the same collective.
void expect_mismatch(Transport transport, const std::function<void(StepProgress&)>& otherwise,
                     std::string_view one, std::string_view other) {
  const auto thrown = run_processes(2, over(transport), [&](ProcessCommunicator& communicator) {
    communicator.progress().move_to(5);
    communicator.progress().begin_step();
    if (communicator.rank() == 1) otherwise(communicator.progress());
    communicator.barrier();
  });
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(thrown[rank]);
    try {
      std::rethrow_exception(thrown[rank]);
    } catch (const StepMismatch& error) {
      EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
      EXPECT_EQ(error.own().rank, rank);
      EXPECT_EQ(error.other().rank, 1 - rank);
      EXPECT_GE(error.own().stamp.step, 5u);
      EXPECT_TRUE(mentions(error, one) && mentions(error, other)) << error.what();
    }
  }
}

TEST_P(OfProcesses, DifferentStepsAreAnErrorThatNamesBothOnEveryRank) {
  expect_mismatch(
      GetParam(),
      [](StepProgress& progress) {
        progress.end_step();
        progress.begin_step();
      },
      "in step 5", "in step 6");
  expect_mismatch(
      GetParam(), [](StepProgress& progress) { progress.count_update(); }, "0 updates",
      "1 updates");
  expect_mismatch(
      GetParam(), [](StepProgress& progress) { progress.add_micro_batches(2); }, "0 updates made)",
      "2 micro-batches");
  expect_mismatch(
      GetParam(),
      [](StepProgress& progress) {
        progress.set_purpose({.use = CallPurpose::Use::kGradients, .optimizer = 1, .bucket = 3});
      },
      "in barrier", "for the gradients of optimizer 1, bucket 3");
}

TEST_P(OfProcesses, ALostMemberReleasesWaitersAndIsNamed) {
  const auto memberships = cluster::testing::make_in_memory_memberships(3);
  std::vector<std::optional<Error>> errors(3);
  std::atomic<int> waiting = 0;
  std::vector<std::thread> threads;
  const auto start = std::chrono::steady_clock::now();
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      const auto communicator = make_process_communicator(memberships[rank], over(GetParam()));
      const at::Tensor tensor = communicator->make_buffer(kLarge, at::kFloat);
      ++waiting;
      if (rank == 1) {  // as if stopped: it holds its communicator and does nothing
        while (waiting < 4) std::this_thread::yield();
        return;
      }
      try {
        for (;;) communicator->all_reduce({&tensor, 1}, ReduceOp::kSum)->wait();
      } catch (const Error& error) {
        errors[rank] = error;
      }
    });
  }
  while (waiting < 3) std::this_thread::yield();
  cluster::testing::lose(*memberships[0], 1, "it was stopped");
  threads[0].join();
  threads[2].join();
  ++waiting;
  threads[1].join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  for (const int rank : {0, 2}) {
    ASSERT_TRUE(errors[rank]);
    EXPECT_EQ(errors[rank]->code(), ErrorCode::kUnavailable) << errors[rank]->what();
    EXPECT_TRUE(mentions(errors[rank], "/task:1") && mentions(errors[rank], "it was stopped"))
        << errors[rank]->what();
  }
}

TEST_P(OfProcesses, AMemberThatLeavesAfterALossNamesIt) {
  let_ranks_be_threads();
  const auto memberships = cluster::testing::make_in_memory_memberships(3);
  std::latch are_made(3), has_ended(2);
  std::optional<Error> thrown;
  run_threads(3, [&](int rank) {
    auto early = std::make_shared<EarlyMembership>(memberships[rank]);
    auto communicator = make_process_communicator(early, over(GetParam()));
    are_made.arrive_and_wait();
    if (rank == 1) {  // another communicator has shown it the loss
      early->is_lost = true;
      communicator = nullptr;
      return;
    }
    if (rank == 0) {
      try {
        communicator->barrier();
      } catch (const Error& error) {
        thrown = error;
      }
    }
    has_ended.arrive_and_wait();  // the lost one does nothing
  });
  ASSERT_TRUE(thrown);
  EXPECT_EQ(thrown->code(), ErrorCode::kUnavailable) << thrown->what();
  EXPECT_TRUE(mentions(*thrown, "/task:2") && mentions(*thrown, "it was killed")) << thrown->what();
}

TEST_P(OfProcesses, ALateRankIsNamed) {
  CommunicationOptions options = over(GetParam());
  options.timeout = std::chrono::milliseconds(300);
  std::atomic<bool> is_over = false;
  const auto thrown = run_processes(2, options, [&](ProcessCommunicator& communicator) {
    if (communicator.rank() == 1) {
      while (!is_over) std::this_thread::yield();
      return;
    }
    try {
      communicator.barrier();
    } catch (...) {
      is_over = true;
      throw;
    }
  });
  const auto error = error_of(thrown[0]);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kDeadlineExceeded) << error->what();
  EXPECT_TRUE(mentions(error, "/task:1")) << error->what();
}

TEST_P(OfProcesses, ARankThatHasLeftIsNotWaitedFor) {
  const auto thrown = run_processes(2, over(GetParam()), [](ProcessCommunicator& communicator) {
    communicator.barrier();
    if (communicator.rank() == 0) communicator.barrier();
  });
  const auto error = error_of(thrown[0]);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kFailedPrecondition) << error->what();
  EXPECT_TRUE(mentions(error, "/task:1")) << error->what();
}

TEST_P(OfProcesses, ASlowPeerIsReportedOnceByName) {
  std::mutex mutex;
  std::vector<std::string> messages;
  std::atomic<bool> was_reported = false;
  base::set_log_sink([&](base::LogLevel, std::string_view text) {
    if (!text.starts_with("barrier")) return;  // on a busy machine the start may be slow too
    const std::lock_guard lock(mutex);
    messages.emplace_back(text);
    was_reported = true;
  });
  CommunicationOptions options = over(GetParam());
  options.slow_after = std::chrono::milliseconds(20);
  run_processes_successfully(2, options, [&](ProcessCommunicator& communicator) {
    if (communicator.rank() == 1) {
      const auto enough = std::chrono::steady_clock::now() + std::chrono::milliseconds(250);
      while (!was_reported || std::chrono::steady_clock::now() < enough) std::this_thread::yield();
    }
    communicator.barrier();
  });
  base::set_log_sink({});
  ASSERT_EQ(messages.size(), 1);
  EXPECT_NE(messages[0].find("/task:1"), std::string::npos) << messages[0];
  EXPECT_EQ(messages[0].find("/task:0"), std::string::npos) << messages[0];
}

TEST_P(OfProcesses, NarrowWireTypesRoundPartsAndSumsAndAddInFullPrecision) {
  for (const WireDtype wire : {WireDtype::kBFloat16, WireDtype::kFloat16}) {
    const at::ScalarType dtype = wire == WireDtype::kBFloat16 ? at::kBFloat16 : at::kHalf;
    const auto narrowed = [&](const at::Tensor& tensor) { return tensor.to(dtype).to(at::kFloat); };
    const at::Tensor expected =
        narrowed(((narrowed(values_of(0, kLarge)) + narrowed(values_of(1, kLarge))) +
                  narrowed(values_of(2, kLarge)))
                     .div(3.0));
    CommunicationOptions options = over(GetParam());
    options.wire = wire;
    run_processes_successfully(3, options, [&](ProcessCommunicator& communicator) {
      const at::Tensor buffer = communicator.make_buffer(kLarge, at::kFloat);
      buffer.copy_(values_of(communicator.rank(), kLarge));
      communicator.all_reduce({&buffer, 1}, ReduceOp::kMean)->wait();
      EXPECT_TRUE(at::equal(buffer, expected));
      // Only gradient buckets are narrowed: counts and metrics stay exact.
      const at::Tensor count = at::full({1}, 100'001.0F);
      communicator.all_reduce({&count, 1}, ReduceOp::kSum)->wait();
      EXPECT_EQ(count.item<float>(), 300'003);
    });
  }
}

/// The leaves of rank `rank`: its sums of whole subtrees, one set of one tensor each.
std::vector<at::Tensor> subtree_sums(const ReductionBlocks& blocks, int rank, std::int64_t size) {
  std::vector<at::Tensor> sets;
  for (const LeafRange& part : blocks.parts_of(rank)) {
    std::vector<at::Tensor> leaves;
    for (int leaf = part.begin; leaf < part.end; ++leaf) leaves.push_back(values_of(leaf, size));
    sets.push_back(combine_by_tree(leaves, ReduceOp::kSum));
  }
  while (sets.size() < blocks.most_parts()) sets.push_back(sets.front());
  return sets;
}

TEST_P(OfProcesses, SubtreesGiveTheBitsOfAllLeaves) {
  for (const auto& sizes :
       std::vector<std::vector<int>>{{2, 2}, {3, 3}, {1, 3}, {4, 1, 1}, {2, 1, 3}, {3, 1, 1, 2}}) {
    const ReductionBlocks blocks(sizes);
    for (const std::int64_t size : {std::int64_t{3}, std::int64_t{3'000}, kLarge}) {
      std::vector<at::Tensor> leaves;
      for (int leaf = 0; leaf < blocks.tree().leaves(); ++leaf)
        leaves.push_back(values_of(leaf, size));
      const at::Tensor expected = combine_by_tree(leaves, ReduceOp::kSum);
      run(static_cast<int>(sizes.size()), [&](ProcessCommunicator& communicator) {
        const auto sets = subtree_sums(blocks, communicator.rank(), size);
        std::vector<at::Tensor> buffers;
        for (const at::Tensor& set : sets)
          buffers.push_back(communicator.make_buffer(size, at::kFloat).copy_(set));
        const at::Tensor last = sets.back().clone();
        communicator.all_reduce_subtrees(sets, blocks);
        EXPECT_TRUE(at::equal(sets.front(), expected));
        if (blocks.num_parts(communicator.rank()) > 1) {
          EXPECT_TRUE(at::equal(sets.back(), last)) << "it is not a result";
        }
        communicator.all_reduce_subtrees(buffers, blocks);
        EXPECT_TRUE(at::equal(buffers.front(), expected));
      });
    }
  }
}

TEST_P(OfProcesses, SeveralTensorsOfASetAreReducedTogether) {
  const ReductionBlocks blocks(std::vector{1, 3});
  run(2, [&](ProcessCommunicator& communicator) {
    const int rank = communicator.rank();
    // Leaf i is i + 1; what a rank has in place of parts that it lacks is ignored.
    const auto of = [](double value) {
      return std::vector<at::Tensor>{at::full({4, 2}, value, at::kFloat).t(), at::empty({0}),
                                     at::full({3}, value, at::kDouble)};
    };
    std::vector<at::Tensor> sets = of(rank == 0 ? 1 : 2);
    for (const at::Tensor& tensor : of(rank == 0 ? -99 : 3 + 4)) sets.push_back(tensor);
    communicator.all_reduce_subtrees(sets, blocks);
    EXPECT_TRUE(at::equal(sets[0], at::full({2, 4}, 10.0F)));
    EXPECT_TRUE(at::equal(sets[2], at::full({3}, 10.0, at::kDouble)));
  });
}

TEST_P(OfProcesses, EachSubtreeIsSentOnce) {
  const ReductionBlocks blocks(std::vector{1, 3});
  run(2, [&](ProcessCommunicator& communicator) {
    constexpr std::int64_t kElements = 1 << 20;
    const auto sets = subtree_sums(blocks, communicator.rank(), kElements);
    const std::int64_t before = communicator.traffic().bytes_sent;
    communicator.all_reduce_subtrees(sets, blocks);
    const std::int64_t parts = communicator.rank() == 0 ? 1 : 2;
    // The other rank's half of each part, and the half of the sums.
    EXPECT_EQ(communicator.traffic().bytes_sent - before, (parts + 1) * 4 * kElements / 2);
  });
}

TEST_P(OfProcesses, DifferentBlocksAreAnErrorOnAllRanks) {
  const auto thrown = run_processes(2, over(GetParam()), [](ProcessCommunicator& communicator) {
    const ReductionBlocks blocks(communicator.rank() == 0 ? std::vector{3, 1} : std::vector{1, 3});
    const at::Tensor tensor = at::full({2}, 1.0F);
    communicator.all_reduce_subtrees(std::vector{tensor, tensor}, blocks);
  });
  for (const std::exception_ptr& each : thrown) {
    const auto error = error_of(each);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::kInvalidArgument) << error->what();
    EXPECT_TRUE(mentions(error, "numbers of leaves per rank")) << error->what();
  }
}

TEST_P(OfProcesses, SetsThatDifferAreRefused) {
  for (const auto& sets : std::vector<std::vector<at::Tensor>>{
           {at::full({2}, 1.0F)}, {at::full({2}, 1.0F), at::full({3}, 1.0F)}}) {
    const auto thrown = run_processes(2, over(GetParam()), [&](ProcessCommunicator& communicator) {
      communicator.all_reduce_subtrees(sets, ReductionBlocks(std::vector{3, 1}));
    });
    for (const std::exception_ptr& each : thrown) EXPECT_TRUE(error_of(each));
  }
}

TEST_P(OfProcesses, NarrowWireTypesRoundEachSubtree) {
  CommunicationOptions options = over(GetParam());
  options.wire = WireDtype::kBFloat16;
  const ReductionBlocks blocks(std::vector{3, 1});
  const auto narrowed = [](const at::Tensor& tensor) {
    return tensor.to(at::kBFloat16).to(at::kFloat);
  };
  const at::Tensor expected =
      narrowed(narrowed(values_of(0, kLarge) + values_of(1, kLarge)) +
               (narrowed(values_of(2, kLarge)) + narrowed(values_of(3, kLarge))));
  run_processes_successfully(2, options, [&](ProcessCommunicator& communicator) {
    std::vector<at::Tensor> buffers;
    for (const at::Tensor& set : subtree_sums(blocks, communicator.rank(), kLarge))
      buffers.push_back(communicator.make_buffer(kLarge, at::kFloat).copy_(set));
    communicator.all_reduce_subtrees(buffers, blocks);
    EXPECT_TRUE(at::equal(buffers.front(), expected));
  });
}

TEST_P(OfProcesses, CountWhatTheySend) {
  run(2, [](ProcessCommunicator& communicator) {
    const Traffic before = communicator.traffic();
    const at::Tensor tensor = at::full({1 << 20}, 1.0F);
    communicator.all_reduce({&tensor, 1}, ReduceOp::kSum)->wait();
    const Traffic after = communicator.traffic();
    EXPECT_EQ(after.collectives, before.collectives + 1);
    EXPECT_EQ(after.bytes_sent - before.bytes_sent, 4 << 20);  // 2 (W - 1) / W of 4 MiB
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, OfProcesses,
                         ::testing::Values(Transport::kSharedMemory, Transport::kGloo),
                         [](const auto& instance) {
                           return std::string(to_string(instance.param));
                         });

}  // namespace
}  // namespace brigade::comm
