#include "brigade/concurrency/deferred_work.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>

namespace brigade::concurrency {
namespace {

DeferredWork work_of(int task, int stage) {
  return {.task = task, .stage = stage, .compute = [] {}};
}

TEST(DeferredQueue, TheOldestWorkIsFirstAndItsTaskIsOpenUntilItIsDone) {
  DeferredQueue queue(3, 2);
  EXPECT_TRUE(queue.empty());
  queue.push(work_of(2, 1));
  queue.push(work_of(0, 1));
  queue.push(work_of(2, 0));
  EXPECT_EQ(queue.kept(1), 2);
  EXPECT_EQ(queue.kept(0), 1);
  const DeferredWork first = queue.pop();
  EXPECT_EQ(first.task, 2);
  EXPECT_EQ(first.stage, 1);
  EXPECT_TRUE(queue.keeps(2, 1));  // it is computed
  queue.done(first, nullptr);
  EXPECT_FALSE(queue.keeps(2, 1));
  EXPECT_FALSE(queue.is_done(2));
  const auto second = queue.pop_of(2);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->stage, 0);
  EXPECT_FALSE(queue.pop_of(2));
  queue.done(*second, nullptr);
  EXPECT_TRUE(queue.is_done(2));
  EXPECT_FALSE(queue.is_done(0));
  EXPECT_TRUE(queue.is_done(1));
}

TEST(DeferredQueue, WhatIsRemovedIsNotOpenAndIsReleased) {
  DeferredQueue queue(2, 1);
  const auto tensor = std::make_shared<int>(1);
  for (const int task : {0, 1, 0})
    queue.push({.task = task, .stage = 0, .compute = [tensor] { ++*tensor; }});
  EXPECT_EQ(queue.remove(0).size(), 2u);
  EXPECT_TRUE(queue.is_done(0));
  EXPECT_EQ(tensor.use_count(), 2);
  EXPECT_FALSE(queue.is_done(1));
  queue.remove_all();
  EXPECT_TRUE(queue.is_done(1));
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(tensor.use_count(), 1);
}

TEST(DeferredQueue, ATaskGetsItsFirstErrorOnceAndSumsKeepNoActivations) {
  DeferredQueue queue(2, 1);
  queue.push(work_of(1, 0));
  queue.push({.kind = StageWork::kSum, .task = 1, .compute = [] {}});
  EXPECT_EQ(queue.kept(0), 1);
  queue.done(queue.pop(), std::make_exception_ptr(std::runtime_error("first")));
  EXPECT_EQ(queue.kept(0), 0);
  EXPECT_FALSE(queue.is_done(1));
  queue.done(queue.pop(), std::make_exception_ptr(std::runtime_error("second")));
  EXPECT_FALSE(queue.take_error(0));
  const std::exception_ptr error = queue.take_error(1);
  ASSERT_TRUE(error);
  try {
    std::rethrow_exception(error);
  } catch (const std::runtime_error& first) {
    EXPECT_STREQ(first.what(), "first");
  }
  EXPECT_FALSE(queue.take_error(1));
}

}  // namespace
}  // namespace brigade::concurrency
