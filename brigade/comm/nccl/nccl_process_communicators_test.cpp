#include "brigade/comm/nccl/nccl_agreement.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/testing/in_memory_membership.h"
#include "brigade/comm/hierarchical.h"
#include "brigade/comm/nccl/nccl.h"
#include "brigade/comm/testing/nccl_wire.h"
#include "brigade/comm/testing/process_threads.h"

namespace brigade::comm {
namespace {

struct Job {
  std::vector<int> replicas = {1, 1};
  CommunicationOptions options = {.transport = Transport::kNccl,
                                  .timeout = std::chrono::seconds(60)};
  const NcclLibrary* library = nullptr;
  std::map<std::string, std::string> variables = {{"NCCL_SOCKET_IFNAME", "lo"}};
};

/// What the test's body gets for one replica.
struct TestReplica {
  Communicator& ranks;
  cluster::Membership& membership;
  StepProgress& progress;       // of its process
  ProcessCommunicator& across;  // likewise
};

/// Calls `body` for each replica of each process, all as threads; [replica]: what it threw.
std::vector<std::optional<Error>> run_job(const Job& job,
                                          const std::function<void(const TestReplica&)>& body) {
  let_ranks_be_threads();
  const int processes = static_cast<int>(job.replicas.size());
  const auto memberships = cluster::testing::make_in_memory_memberships(processes);
  const ProcessLayout whole{.process = 0, .replicas = job.replicas};
  std::vector<std::optional<Error>> thrown(static_cast<std::size_t>(whole.num_replicas()));
  const auto run_process = [&](int process) {
    const ProcessLayout layout{.process = process, .replicas = job.replicas};
    const auto first = static_cast<std::size_t>(layout.first_replica());
    const auto size = static_cast<std::size_t>(job.replicas[static_cast<std::size_t>(process)]);
    const auto group = std::make_shared<LocalGroup>(
        static_cast<int>(size), LocalGroupOptions{.timeout = std::chrono::seconds(60),
                                                  .spin = std::chrono::microseconds(0)});
    CommunicationOptions on_host = job.options;
    on_host.transport = Transport::kAuto;
    std::vector<std::unique_ptr<Communicator>> all;
    const std::shared_ptr<ProcessCommunicator> across =
        make_process_communicator(memberships[process], on_host);
    try {
      all = make_nccl_process_communicators(
          job.library, cluster::make_environment(job.variables), memberships[process],
          std::vector<c10::Device>(size, c10::Device(c10::kCPU)),
          make_hierarchical_communicators(group, make_local_communicators(group), across, layout),
          job.options);
    } catch (const Error& error) {
      for (std::size_t local = 0; local < size; ++local) thrown[first + local] = error;
      return;
    }
    std::vector<std::thread> threads;
    for (std::size_t local = 0; local < size; ++local) {
      threads.emplace_back([&, local] {
        try {
          body({*all[local], *memberships[process], across->progress(), *across});
          group->leave(static_cast<int>(local));
        } catch (const Error& error) {
          thrown[first + local] = error;
          group->abort(static_cast<int>(local), error.what());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  };
  std::vector<std::thread> threads;
  for (int process = 0; process < processes; ++process)
    threads.emplace_back([&, process] { run_process(process); });
  for (std::thread& thread : threads) thread.join();
  return thrown;
}

void run_successfully(const Job& job, const std::function<void(const TestReplica&)>& body) {
  for (const auto& error : run_job(job, body)) {
    if (error) ADD_FAILURE() << error->what();
  }
}

bool mentions(const std::optional<Error>& error, std::string_view text) {
  return error && std::string_view(error->what()).find(text) != std::string_view::npos;
}

/// Every rank's number plus one, summed.
void expect_sum(Communicator& ranks) {
  const at::Tensor value = at::full({3}, ranks.rank() + 1.0);
  ranks.all_reduce({&value, 1}, ReduceOp::kSum)->wait();
  ranks.finish();
  const int n = ranks.world_size();
  EXPECT_EQ(value[0].item<double>(), n * (n + 1) / 2);
}

// Nothing is started on the GPUs that would not end.
TEST(NcclProcessCommunicators, AStepThatFailedInOneProcessStartsNothingOnTheGpus) {
  Wire wire;
  const WireLibrary library(wire);
  run_successfully({.library = &library}, [&](const TestReplica& test_replica) {
    for (int step = 0; step < 3; ++step) {
      test_replica.progress.begin_step();
      const bool fails = step == 1 && test_replica.ranks.rank() == 1;
      if (fails) {
        test_replica.progress.fail_step("it fell over");
      } else if (step == 1) {
        EXPECT_THROW(expect_sum(test_replica.ranks), StepAbandoned);
      } else {
        expect_sum(test_replica.ranks);
      }
      test_replica.progress.end_step();
    }
  });
  EXPECT_EQ(wire.collectives, 2 * 2);
  EXPECT_EQ(wire.aborts, 0);
}

TEST(NcclProcessCommunicators, ReduceAndBroadcastOverAllReplicas) {
  for (const std::vector<int>& replicas : {std::vector<int>{1, 1}, {2, 1}, {1, 1, 1}}) {
    Wire wire;
    const WireLibrary library(wire);
    run_successfully({.replicas = replicas, .library = &library},
                     [](const TestReplica& test_replica) {
                       expect_sum(test_replica.ranks);
                       expect_sum(test_replica.ranks);
                       const at::Tensor value = at::full({2}, test_replica.ranks.rank());
                       const int root = test_replica.ranks.world_size() - 1;
                       test_replica.ranks.broadcast({&value, 1}, root)->wait();
                       test_replica.ranks.finish();
                       EXPECT_EQ(value[1].item<double>(), root);
                     });
    const int world = ProcessLayout{.process = 0, .replicas = replicas}.num_replicas();
    EXPECT_EQ(wire.collectives, 3 * world);
    EXPECT_EQ(wire.closed, world);
    EXPECT_EQ(wire.aborts, 0);
  }
}

// Ranks have different values, and one of them is nobody's.
TEST(NcclProcessCommunicators, AddWhatIsPresentWithOneAgreementOnTheHost) {
  Wire wire;
  const WireLibrary library(wire);
  std::atomic<std::int64_t> agreements = 0;
  run_successfully({.library = &library}, [&](const TestReplica& test_replica) {
    const at::Tensor own = at::full({2}, test_replica.ranks.rank() + 1.0);
    const bool is_first = test_replica.ranks.rank() == 0;
    const std::vector<at::Tensor> values = {own, is_first ? at::Tensor() : own, at::Tensor()};
    const std::vector<at::Tensor> like(3, own);
    const std::int64_t before = test_replica.across.traffic().collectives;
    const auto sums = test_replica.ranks.sum_present(values, like);
    agreements += test_replica.across.traffic().collectives - before;
    test_replica.ranks.finish();
    EXPECT_EQ(sums[0][0].item<double>(), 3);
    EXPECT_EQ(sums[1][1].item<double>(), 2);
    EXPECT_FALSE(sums[2].defined());
    EXPECT_EQ(own[0].item<double>(), test_replica.ranks.rank() + 1.0) << "the values are kept";
  });
  EXPECT_EQ(agreements, 2) << "one on each rank";
  EXPECT_EQ(wire.collectives, 2);
}

TEST(NcclProcessCommunicators, TheAgreementOnWhatIsPresentCarriesANumberOfEachProcess) {
  for (const std::vector<int>& replicas : {std::vector<int>{1, 1}, {2, 1}, {1, 1, 1}}) {
    Wire wire;
    const WireLibrary library(wire);
    run_successfully({.replicas = replicas, .library = &library}, [&](const TestReplica& replica) {
      const std::int64_t process = replica.membership.self().rank;
      const ProcessLayout layout{.process = static_cast<int>(process), .replicas = replicas};
      const bool is_leader = replica.ranks.rank() == layout.first_replica();
      for (int step = 0; step < 3; ++step) {
        // Only the first replica of a process uses what connects the processes.
        std::shared_ptr<PiggybackNumber> number;
        std::shared_ptr<PiggybackNumber> stop;
        if (is_leader) {
          number =
              replica.across.piggyback(PiggybackUse::kInput, [=] { return 100 * step + process; });
          stop = replica.across.piggyback(PiggybackUse::kStop, [=] { return process - step; });
        }
        const std::int64_t before = replica.across.traffic().collectives;
        const at::Tensor own = at::ones({2});
        replica.ranks.sum_present({&own, 1}, {&own, 1});
        if (!is_leader) continue;
        EXPECT_EQ(replica.across.traffic().collectives, before + 1) << "the only one of the step";
        ASSERT_NE(number->by_rank(), nullptr);
        ASSERT_NE(stop->by_rank(), nullptr);
        ASSERT_EQ(number->by_rank()->size(), replicas.size());
        for (std::size_t other = 0; other < replicas.size(); ++other) {
          EXPECT_EQ((*number->by_rank())[other], 100 * step + static_cast<std::int64_t>(other));
          EXPECT_EQ((*stop->by_rank())[other], static_cast<std::int64_t>(other) - step);
        }
      }
      replica.ranks.finish();
    });
  }
}

TEST(NcclProcessCommunicators, ValuesThatDifferBetweenRanksAreRefusedOnAll) {
  Wire wire;
  const WireLibrary library(wire);
  const auto thrown = run_job({.library = &library}, [](const TestReplica& test_replica) {
    const at::Tensor own = at::ones({2 + test_replica.ranks.rank()});
    test_replica.ranks.sum_present({&own, 1}, {&own, 1});
  });
  for (const auto& error : thrown)
    EXPECT_TRUE(mentions(error, "Float[2]") && mentions(error, "Float[3]"));
  EXPECT_EQ(wire.collectives, 0);
}

TEST(NcclProcessCommunicators, UseTheHostForTensorsThatNcclDoesNotSupport) {
  Wire wire;
  const WireLibrary library(wire);
  run_successfully({.library = &library}, [](const TestReplica& test_replica) {
    const at::Tensor flag = at::full({1}, test_replica.ranks.rank() == 1, at::kBool);
    test_replica.ranks.all_reduce({&flag, 1}, ReduceOp::kMax)->wait();
    EXPECT_TRUE(flag.item<bool>());
    const at::Tensor count = at::ones({1}, at::kLong);
    EXPECT_THROW(test_replica.ranks.all_reduce({&count, 1}, ReduceOp::kMean)->wait(), Error);
  });
  EXPECT_EQ(wire.collectives, 0);
}

TEST(NcclProcessCommunicators, NeverStartCallsThatDifferBetweenRanks) {
  Wire wire;
  const WireLibrary library(wire);
  const auto thrown = run_job({.library = &library}, [](const TestReplica& test_replica) {
    const at::Tensor value = at::ones({2 + test_replica.ranks.rank()});
    test_replica.ranks.all_reduce({&value, 1}, ReduceOp::kSum)->wait();
  });
  for (const auto& error : thrown)
    EXPECT_TRUE(mentions(error, "Float[2]") && mentions(error, "Float[3]"));
  EXPECT_EQ(wire.collectives, 0);
}

TEST(NcclProcessCommunicators, ALostMemberEndsRunningCollectivesAndIsNamed) {
  Wire wire;
  wire.stands_still = true;
  const WireLibrary library(wire);
  const auto thrown =
      run_job({.replicas = {2, 1}, .library = &library}, [&](const TestReplica& test_replica) {
        if (test_replica.membership.self().rank == 1) {
          // It is lost when all three ranks have started the collective.
          std::thread loss([&] {
            while (wire.collectives < 3) std::this_thread::yield();
            cluster::testing::lose(test_replica.membership, 1, "it was killed");
          });
          try {
            expect_sum(test_replica.ranks);
          } catch (...) {
            loss.join();
            throw;
          }
          loss.join();
        }
        try {
          expect_sum(test_replica.ranks);
          ADD_FAILURE() << "nothing was thrown";
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
          throw;
        }
      });
  EXPECT_TRUE(mentions(thrown[0], "/job:worker/task:1") && mentions(thrown[0], "it was killed"));
  EXPECT_TRUE(mentions(thrown[1], "it was killed"));
  EXPECT_EQ(wire.aborts, 2) << "once in each process";
}

TEST(NcclProcessCommunicators, WithoutNcclAutoUsesTheHostAndNcclIsAnError) {
  Job job;
  for (const auto& error : run_job(job, [](const TestReplica&) { ADD_FAILURE(); })) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::kUnimplemented);
    EXPECT_TRUE(mentions(error, "BRIGADE_WITH_CUDA"));
  }
  job.options.transport = Transport::kAuto;
  run_successfully(job, [](const TestReplica& test_replica) { expect_sum(test_replica.ranks); });
}

TEST(NcclProcessCommunicators, WithoutAKeyNothingListensBeyondTheHost) {
  Wire wire;
  const WireLibrary library(wire);
  Job job{.library = &library, .variables = {}};
  for (const auto& error : run_job(job, [](const TestReplica&) { ADD_FAILURE(); })) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::kPermissionDenied);
  }
  job.options.transport = Transport::kAuto;
  run_successfully(job, [](const TestReplica& test_replica) { expect_sum(test_replica.ranks); });
  EXPECT_EQ(wire.collectives, 0);
}

TEST(NcclProcessCommunicators, AreForGpus) {
  const auto memberships = cluster::testing::make_in_memory_memberships(1);
  const auto make = [&](Transport transport) {
    std::vector<std::unique_ptr<Communicator>> host =
        make_local_communicators(std::make_shared<LocalGroup>(1));
    Communicator* const same = host.front().get();
    const auto made = make_nccl_process_communicators(memberships[0], {c10::Device(c10::kCPU)},
                                                      std::move(host), {.transport = transport});
    return made.front().get() == same;
  };
  EXPECT_TRUE(make(Transport::kAuto));
  EXPECT_TRUE(make(Transport::kGloo));
  try {
    make(Transport::kNccl);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("'auto'"), std::string::npos);
  }
}

}  // namespace
}  // namespace brigade::comm
