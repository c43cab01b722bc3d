#pragma once

// The contract of channels between ranks, which runs over every transport: threads of one process,
// shared memory and Gloo (tensor_channel_contract_test.cpp), and MPI (tests/mpi).
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/comm/tensor_channel.h"

namespace brigade::comm {

/// Makes a channel; called by the source and the receivers.
using MakeChannel = std::function<std::unique_ptr<TensorChannel>(
    int source, const std::vector<int>& receivers, const TensorChannelOptions& options)>;

struct ChannelImplementation {
  std::string name;
  int world = 2;
  /// Calls the body for each rank (or for this process's), and returns when all have returned; a
  /// rank that throws fails the test. The last argument makes this rank lost to the others.
  std::function<void(int world, const std::function<void(int rank, const MakeChannel& make,
                                                         const std::function<void()>& die)>&)>
      run;
  /// Whether there are losses to notice.
  bool has_losses = true;
};

class TensorChannelContract : public ::testing::TestWithParam<ChannelImplementation> {
 protected:
  void SetUp() override {
    if (GetParam().world < 2) GTEST_SKIP() << "a channel has two ends";
  }

  using Body = std::function<void(int, const MakeChannel&)>;
  void run(const Body& body) {
    GetParam().run(GetParam().world,
                   [&](int rank, const MakeChannel& make, const auto&) { body(rank, make); });
  }
  /// The ranks at the ends of a channel; others have no part in it.
  int first() const { return 0; }
  int last() const { return GetParam().world - 1; }

  template <class Call>
  static Error error_of(const Call& call) {
    try {
      call();
    } catch (const Error& error) {
      return error;
    }
    return {ErrorCode::kInternal, "no error"};
  }
};

inline at::Tensor numbers(std::int64_t count, double from = 0.0) {
  return at::arange(from, from + static_cast<double>(count), at::kFloat);
}

TEST_P(TensorChannelContract, TensorsArriveAsTheyWereInAnyOrderOfReceipt) {
  run([&](int rank, const MakeChannel& make) {
    if (rank != first() && rank != last()) return;
    const auto channel = make(first(), {last()}, {});
    EXPECT_EQ(channel->is_source(), rank == first());
    const at::Tensor image = numbers(2 * 3 * 4 * 5).view({2, 3, 4, 5});
    const at::Tensor in_channels_last = image.contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor large = numbers(700'001);  // several chunks
    if (channel->is_source()) {
      channel->send({.step = 1, .number = 0}, {in_channels_last, at::full({1}, 7, at::kLong)});
      channel->send({.step = 1, .number = 1}, {image.slice(3, 0, 5, 2)});
      channel->send({.step = 1, .number = 2}, {large.to(at::kHalf)});
      channel->send({.step = 1, .number = 3}, {at::empty({0, 3})});
      channel->send({.step = 2, .number = 0}, {large});
      EXPECT_GE(channel->bytes_sent(), 0);
      return;
    }
    EXPECT_TRUE(at::equal(channel->receive({.step = 2, .number = 0}).at(0), large));
    const at::Tensor empty = channel->receive({.step = 1, .number = 3}).at(0);
    EXPECT_EQ(empty.sizes(), at::IntArrayRef({0, 3}));
    const at::Tensor half = channel->receive({.step = 1, .number = 2}).at(0);
    EXPECT_EQ(half.scalar_type(), at::kHalf);
    EXPECT_TRUE(at::equal(half, large.to(at::kHalf)));
    EXPECT_TRUE(
        at::equal(channel->receive({.step = 1, .number = 1}).at(0), image.slice(3, 0, 5, 2)));
    const auto both = channel->receive({.step = 1, .number = 0});
    EXPECT_TRUE(at::equal(both.at(0), image));
    EXPECT_EQ(both.at(0).strides(), in_channels_last.strides());
    EXPECT_EQ(both.at(1).item<std::int64_t>(), 7);
  });
}

TEST_P(TensorChannelContract, BothSidesSendBeforeTheyReceive) {
  run([&](int rank, const MakeChannel& make) {
    if (rank != first() && rank != last()) return;
    const auto up = make(first(), {last()}, {});
    const auto down = make(last(), {first()}, {});
    TensorChannel& mine = rank == first() ? *up : *down;
    TensorChannel& theirs = rank == first() ? *down : *up;
    for (int step = 1; step <= 3; ++step) {
      theirs.begin_step(step);
      for (int number = 0; number < 4; ++number)
        mine.send({.step = step, .number = number}, {at::full({300'000}, rank + number)});
      for (int number = 0; number < 4; ++number) {
        const at::Tensor got = theirs.receive({.step = step, .number = number}).at(0);
        EXPECT_EQ(got[0].item<float>(), static_cast<float>(first() + last() - rank + number));
      }
      mine.end_step(step, std::nullopt);
    }
  });
}

TEST_P(TensorChannelContract, OneSendsToAllOthersAndCountsIt) {
  run([&](int rank, const MakeChannel& make) {
    std::vector<int> others;
    for (int other = 0; other < last(); ++other) others.push_back(other);
    const auto channel = make(last(), others, {});
    if (!channel->is_source()) {
      EXPECT_TRUE(at::equal(channel->receive({.step = 1, .number = 5}).at(0), numbers(1000)));
      return;
    }
    channel->send({.step = 1, .number = 5}, {numbers(1000)});
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (channel->bytes_sent() == 0 && std::chrono::steady_clock::now() < until)
      std::this_thread::yield();
    const std::int64_t values = 4000 * last();
    EXPECT_GE(channel->bytes_sent(), values);
    EXPECT_LE(channel->bytes_sent(), values + 512 * last());
    EXPECT_EQ(rank, last());
  });
}

TEST_P(TensorChannelContract, AFailedStepNamesTheReasonAndTheNextOneWorks) {
  run([&](int rank, const MakeChannel& make) {
    if (rank != first() && rank != last()) return;
    const auto channel = make(first(), {last()}, {.name = "activations"});
    if (channel->is_source()) {
      channel->send({.step = 1, .number = 0}, {numbers(10)});
      channel->end_step(1, Error(ErrorCode::kAborted, "worker 0 failed in step 1: broken"));
      channel->send({.step = 2, .number = 0}, {numbers(10, 1.0)});
      channel->end_step(2, std::nullopt);
      return;
    }
    channel->begin_step(1);
    const Error failed = error_of([&] { channel->receive({.step = 1, .number = 1}); });
    EXPECT_EQ(failed.code(), ErrorCode::kAborted);
    EXPECT_THAT(failed.what(), ::testing::HasSubstr("worker 0 failed in step 1: broken"));
    channel->begin_step(2);
    EXPECT_TRUE(at::equal(channel->receive({.step = 2, .number = 0}).at(0), numbers(10, 1.0)));
    const Error missing = error_of([&] { channel->receive({.step = 2, .number = 1}); });
    EXPECT_EQ(missing.code(), ErrorCode::kFailedPrecondition);
    EXPECT_THAT(missing.what(), ::testing::HasSubstr("has ended step 2 without"));
  });
}

TEST_P(TensorChannelContract, AReceiverThatFailsIsReleasedAndDropsWhatComesLate) {
  run([&](int rank, const MakeChannel& make) {
    if (rank != first() && rank != last()) return;
    const auto channel = make(first(), {last()}, {});
    const auto back = make(last(), {first()}, {});
    if (channel->is_source()) {
      back->receive({.step = 1, .number = 0});  // the receiver has failed
      channel->send({.step = 1, .number = 0}, {numbers(10)});
      channel->send({.step = 2, .number = 0}, {numbers(20)});
      back->receive({.step = 2, .number = 0});
      return;
    }
    channel->begin_step(1);
    channel->abort("micro-batch 1 failed");
    const Error error = error_of([&] { channel->receive({.step = 1, .number = 0}); });
    EXPECT_EQ(error.code(), ErrorCode::kAborted);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("micro-batch 1 failed"));
    channel->begin_step(2);
    back->send({.step = 1, .number = 0}, {numbers(1)});
    EXPECT_EQ(channel->receive({.step = 2, .number = 0}).at(0).numel(), 20);
    back->send({.step = 2, .number = 0}, {numbers(1)});
  });
}

TEST_P(TensorChannelContract, AMessageThatDoesNotComeIsNamed) {
  run([&](int rank, const MakeChannel& make) {
    if (rank != first() && rank != last()) return;
    const auto channel =
        make(first(), {last()},
             {.name = "activations of stage 0", .timeout = std::chrono::milliseconds(50)});
    const auto back = make(last(), {first()}, {});
    if (channel->is_source()) {
      back->receive({.step = 1, .number = 0});
      return;
    }
    const Error late = error_of([&] { channel->receive({.step = 3, .number = 2}); });
    EXPECT_EQ(late.code(), ErrorCode::kDeadlineExceeded);
    EXPECT_THAT(late.what(), ::testing::HasSubstr("activations of stage 0 of micro-batch 2"));
    back->send({.step = 1, .number = 0}, {numbers(1)});
  });
}

TEST_P(TensorChannelContract, WhatNoChannelCarriesIsRefused) {
  run([&](int rank, const MakeChannel& make) {
    if (rank != first() && rank != last()) return;
    const auto channel = make(first(), {last()}, {.name = "activations"});
    if (!channel->is_source()) return;
    const Error undefined = error_of([&] { channel->send({}, {at::Tensor()}); });
    EXPECT_EQ(undefined.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(undefined.what(), ::testing::HasSubstr("activations"));
    const at::Tensor nine = at::empty({1, 1, 1, 1, 1, 1, 1, 1, 1});
    EXPECT_EQ(error_of([&] { channel->send({}, {nine}); }).code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(error_of([&] {
                channel->send({}, {nine, nine, nine});
              }).code(),
              ErrorCode::kInvalidArgument);
    EXPECT_EQ(error_of([&] { channel->send({}, {numbers(4).to_sparse()}); }).code(),
              ErrorCode::kInvalidArgument);
  });
}

TEST_P(TensorChannelContract, ALostPeerIsNamed) {
  if (!GetParam().has_losses) GTEST_SKIP() << "threads of one process are not lost one by one";
  GetParam().run(
      GetParam().world, [&](int rank, const MakeChannel& make, const std::function<void()>& die) {
        if (rank != first() && rank != last()) return;
        const auto channel = make(first(), {last()}, {});
        const auto back = make(last(), {first()}, {});
        if (channel->is_source()) {
          back->receive({});  // who is lost earlier is an error of the peer's own `make`
          return die();
        }
        back->send({}, {numbers(1)});
        const Error error = error_of([&] { channel->receive({.step = 1, .number = 0}); });
        EXPECT_EQ(error.code(), ErrorCode::kUnavailable) << error.what();
        EXPECT_THAT(error.what(), ::testing::HasSubstr("task:0 (rank 0"));
      });
}

}  // namespace brigade::comm
