#pragma once

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/comm/communicator.h"

/// The contract of every Communicator (brigade/comm/communicator.h), as a suite that each program
/// instantiates with the implementations that it can run. Ranks may be threads or processes, so
/// they share only what the harness gives them. It does not test the order of additions, which
/// NCCL chooses itself; the program of the implementations on the host does.
namespace brigade::comm {

struct Implementation {
  using Body = std::function<void(Communicator&)>;

  std::string name;
  /// Calls the body once per rank, at the same time; returns what each rank threw.
  std::function<std::vector<std::exception_ptr>(int, const Body&)> run;
  int world = 1;
  bool are_threads = true;
  /// Adds to a number that all ranks share; returns the sum.
  std::function<std::int64_t(std::int64_t)> add;
};

inline void PrintTo(const Implementation& implementation, std::ostream* out) {
  *out << implementation.name << " of " << implementation.world;
}

class CommunicatorContract : public ::testing::TestWithParam<Implementation> {
 protected:
  void SetUp() override {
    world_ = GetParam().world;
    run([&](Communicator& communicator) { ASSERT_EQ(communicator.world_size(), world_); });
  }

  void run(const std::function<void(Communicator&)>& body) {
    for (const std::exception_ptr& error : GetParam().run(world_, body)) {
      if (error) std::rethrow_exception(error);
    }
  }
  /// Whether every rank throws.
  bool all_fail(const std::function<void(Communicator&)>& body) {
    bool all = true;
    for (const std::exception_ptr& error : GetParam().run(world_, body)) all = all && error;
    return all;
  }
  int sum_of_ranks() const { return world_ * (world_ - 1) / 2; }

  int world_ = 0;
};

TEST_P(CommunicatorContract, EveryRankHasItsNumber) {
  run([&](Communicator& communicator) {
    const auto ranks = communicator.all_gather(at::full({1}, communicator.rank()));
    for (int rank = 0; rank < world_; ++rank) EXPECT_EQ(ranks[rank].item<int>(), rank);
  });
}

TEST_P(CommunicatorContract, AllReduceLeavesTheSameEverywhere) {
  run([&](Communicator& communicator) {
    const auto reduced = [&](ReduceOp op) {
      const at::Tensor tensor = at::full({5}, communicator.rank() + 1.0);
      communicator.all_reduce({&tensor, 1}, op)->wait();
      EXPECT_TRUE(at::equal(tensor, tensor[0].expand({5})));
      return tensor[0].item<double>();
    };
    EXPECT_EQ(reduced(ReduceOp::kSum), sum_of_ranks() + world_);
    EXPECT_EQ(reduced(ReduceOp::kMean), (world_ + 1) / 2.0);
    EXPECT_EQ(reduced(ReduceOp::kMax), world_);
    EXPECT_EQ(reduced(ReduceOp::kMin), 1);
  });
}

TEST_P(CommunicatorContract, AllReduceAcceptsManyTensorsOfManyDtypesAndSizes) {
  run([&](Communicator& communicator) {
    std::vector<at::Tensor> tensors;
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kLong, at::kInt}) {
      for (const std::int64_t size : {0, 1, 3, 70'001})
        tensors.push_back(at::full({size}, communicator.rank(), dtype));
    }
    communicator.all_reduce(tensors, ReduceOp::kSum)->wait();
    for (const at::Tensor& tensor : tensors) {
      EXPECT_TRUE(
          at::equal(tensor, at::full({tensor.numel()}, sum_of_ranks(), tensor.scalar_type())));
    }
    communicator.all_reduce({}, ReduceOp::kSum)->wait();
  });
}

TEST_P(CommunicatorContract, SumPresentAddsWhatRanksHaveAndKeepsTheirValues) {
  run([&](Communicator& communicator) {
    const at::Tensor own = at::full({3}, communicator.rank() + 1.0);
    const bool is_last = communicator.rank() == world_ - 1;
    const std::vector<at::Tensor> values = {own, is_last ? own : at::Tensor(), at::Tensor()};
    const auto sums = communicator.sum_present(values, std::vector<at::Tensor>(3, own));
    communicator.finish();
    ASSERT_EQ(sums.size(), 3u);
    EXPECT_TRUE(at::equal(sums[0], at::full({3}, sum_of_ranks() + world_, at::kFloat)));
    EXPECT_TRUE(at::equal(sums[1], at::full({3}, world_, at::kFloat)));
    EXPECT_FALSE(sums[2].defined());
    EXPECT_TRUE(at::equal(own, at::full({3}, communicator.rank() + 1.0)));
    const auto none = communicator.sum_present({}, {});
    EXPECT_TRUE(none.empty());
  });
}

TEST_P(CommunicatorContract, CallsCarryANumberOfEachRankOrOnNoRankAny) {
  run([&](Communicator& communicator) {
    const std::int64_t rank = communicator.rank();
    const auto number = communicator.piggyback(PiggybackUse::kStop, [rank] { return 10 * rank; });
    const at::Tensor carries = at::full({1}, number ? 1 : 0, at::kLong);
    communicator.all_reduce({&carries, 1}, ReduceOp::kSum)->wait();
    communicator.finish();
    EXPECT_EQ(carries.item<std::int64_t>(), number ? world_ : 0);
    if (!number) return;
    ASSERT_NE(number->by_rank(), nullptr);
    ASSERT_EQ(number->by_rank()->size(), static_cast<std::size_t>(world_));
    for (int each = 0; each < world_; ++each) EXPECT_EQ((*number->by_rank())[each], 10 * each);
  });
}

TEST_P(CommunicatorContract, ReductionsGiveTheSameBitsOnEveryRankAndInEveryRun) {
  at::Tensor first;
  for (const int round : {0, 1}) {
    run([&](Communicator& communicator) {
      const at::Tensor tensor =
          at::arange(10'007, at::kFloat).add(1.5F + communicator.rank()).sin();
      communicator.all_reduce({&tensor, 1}, ReduceOp::kSum)->wait();
      const std::vector<at::Tensor> all = communicator.all_gather(tensor);
      for (const at::Tensor& result : all) EXPECT_TRUE(at::equal(result, all.front()));
      if (round == 1) {
        EXPECT_TRUE(at::equal(tensor, first));
        return;
      }
      const bool keeps_it = communicator.rank() == 0 || !GetParam().are_threads;
      if (keeps_it) first = tensor;
    });
  }
}

TEST_P(CommunicatorContract, HalfAndBFloat16AreAddedInFloat32AndRoundedOnce) {
  run([&](Communicator& communicator) {
    // The sums overflow half, or are so large that half cannot represent the added ones.
    const auto reduced = [&](at::ScalarType dtype, double first, double others, std::int64_t size,
                             ReduceOp op) {
      const at::Tensor tensor = at::full({size}, communicator.rank() == 0 ? first : others, dtype);
      communicator.all_reduce({&tensor, 1}, op)->wait();
      EXPECT_TRUE(at::equal(tensor, tensor[0].expand({size})));
      EXPECT_EQ(tensor.scalar_type(), dtype);
      return tensor[0].item<float>();
    };
    const auto rounded = [](at::ScalarType dtype, double value) {
      return at::full({1}, value, at::kFloat).to(dtype).item<float>();
    };
    for (const std::int64_t size : {std::int64_t{3}, std::int64_t{600'001}}) {
      EXPECT_EQ(reduced(at::kHalf, 40'000, 40'000, size, ReduceOp::kMean), 40'000) << size;
      EXPECT_EQ(reduced(at::kHalf, 2048, 1, size, ReduceOp::kSum),
                rounded(at::kHalf, 2048 + world_ - 1))
          << size;
      EXPECT_EQ(reduced(at::kBFloat16, 256, 1, size, ReduceOp::kSum),
                rounded(at::kBFloat16, 256 + world_ - 1))
          << size;
      EXPECT_EQ(reduced(at::kBFloat16, 256, 1, size, ReduceOp::kMean),
                rounded(at::kBFloat16, (256.0F + world_ - 1) / world_))
          << size;
      EXPECT_EQ(reduced(at::kHalf, 2048, 1, size, ReduceOp::kMax), 2048) << size;
    }
  });
}

TEST_P(CommunicatorContract, OneCallMayReduceSeveralDtypes) {
  run([&](Communicator& communicator) {
    const std::vector<at::Tensor> tensors = {at::full({3}, 40'000.0, at::kHalf),
                                             at::full({2}, 3.0, at::kDouble),
                                             at::full({2, 2}, 0.5, at::kBFloat16)};
    communicator.all_reduce(tensors, ReduceOp::kMean)->wait();
    EXPECT_EQ(tensors[0][2].item<double>(), 40'000);
    EXPECT_EQ(tensors[1][0].item<double>(), 3);
    EXPECT_EQ(tensors[2][1][1].item<double>(), 0.5);
  });
}

TEST_P(CommunicatorContract, TheMeanOfIntegersIsRefused) {
  EXPECT_TRUE(all_fail([](Communicator& communicator) {
    const at::Tensor tensor = at::full({2}, 1, at::kLong);
    communicator.all_reduce({&tensor, 1}, ReduceOp::kMean)->wait();
  }));
}

TEST_P(CommunicatorContract, BroadcastCopiesTheRootsTensors) {
  run([&](Communicator& communicator) {
    for (int root = 0; root < world_; ++root) {
      const std::vector<at::Tensor> tensors = {at::full({3}, communicator.rank()),
                                               at::full({2, 2}, communicator.rank() * 0.5)};
      communicator.broadcast(tensors, root)->wait();
      EXPECT_EQ(tensors[0][2].item<int>(), root);
      EXPECT_EQ(tensors[1][1][1].item<double>(), root * 0.5);
    }
  });
}

TEST_P(CommunicatorContract, ARootThatIsNoRankIsRefused) {
  for (const int root : {-1, world_}) {
    EXPECT_TRUE(all_fail([&](Communicator& communicator) {
      const at::Tensor tensor = at::full({1}, 1.0);
      communicator.broadcast({&tensor, 1}, root)->wait();
    }));
  }
}

TEST_P(CommunicatorContract, AllGatherAcceptsUnevenShapesAndReturnsCopies) {
  run([&](Communicator& communicator) {
    const at::Tensor mine = at::full({communicator.rank(), 2}, communicator.rank());
    const std::vector<at::Tensor> all = communicator.all_gather(mine);
    ASSERT_EQ(static_cast<int>(all.size()), world_);
    for (int rank = 0; rank < world_; ++rank) {
      EXPECT_EQ(all[rank].sizes(), at::IntArrayRef({rank, 2}));
      EXPECT_EQ(all[rank].sum().item<int>(), 2 * rank * rank);
      all[rank].zero_();
    }
    communicator.barrier();
    EXPECT_EQ(mine.sum().item<int>(), 2 * communicator.rank() * communicator.rank());
  });
}

TEST_P(CommunicatorContract, NoRankPassesABarrierBeforeAllHaveCalledIt) {
  const std::int64_t before = GetParam().add(0);
  run([&](Communicator& communicator) {
    communicator.barrier();  // all ranks have read `before`
    for (int round = 1; round <= 50; ++round) {
      GetParam().add(1);
      communicator.barrier();
      EXPECT_GE(GetParam().add(0), before + round * world_);
      communicator.barrier();
    }
  });
}

TEST_P(CommunicatorContract, ShapesDtypesAndCountsThatDifferAreErrorsOnAllRanks) {
  if (world_ == 1) GTEST_SKIP() << "one rank agrees with itself";
  const auto refused = [&](const std::function<std::vector<at::Tensor>(bool)>& tensors_of) {
    return all_fail([&](Communicator& communicator) {
      const bool odd_one = communicator.rank() == communicator.world_size() - 1;
      communicator.all_reduce(tensors_of(odd_one), ReduceOp::kSum)->wait();
    });
  };
  using Tensors = std::vector<at::Tensor>;
  EXPECT_TRUE(refused([](bool odd) { return Tensors{at::full({odd ? 3 : 2}, 1.0)}; }));
  EXPECT_TRUE(
      refused([](bool odd) { return Tensors{at::full({2}, 1, odd ? at::kFloat : at::kDouble)}; }));
  EXPECT_TRUE(refused([](bool odd) { return Tensors(odd ? 2 : 1, at::full({2}, 1.0)); }));
  EXPECT_TRUE(all_fail([](Communicator& communicator) {
    communicator.all_gather(at::full({1}, 1, communicator.rank() == 0 ? at::kInt : at::kLong));
  }));
}

TEST_P(CommunicatorContract, ALostRankIsAnErrorOnAllRanksAndNotAHang) {
  if (world_ == 1) GTEST_SKIP() << "there is no other rank";
  EXPECT_TRUE(all_fail([](Communicator& communicator) {
    if (communicator.rank() == 1) throw Error(ErrorCode::kUnavailable, "lost");
    communicator.barrier();
  }));
}

TEST_P(CommunicatorContract, UnequalCountsOfCallsAreAnErrorAndNotAHang) {
  if (world_ == 1) GTEST_SKIP() << "one rank agrees with itself";
  const auto thrown = GetParam().run(world_, [](Communicator& communicator) {
    if (communicator.rank() == 0) communicator.barrier();
  });
  EXPECT_TRUE(thrown[0]);
}

}  // namespace brigade::comm
