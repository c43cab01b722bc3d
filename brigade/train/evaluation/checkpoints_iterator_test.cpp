#include "brigade/train/evaluation/checkpoints_iterator.h"

#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "brigade/base/testing/manual_clock.h"
#include "brigade/checkpoint/saver.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/train/testing/small_session.h"

namespace brigade::train {
namespace {

using distribute::error_from;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::SizeIs;

/// Checkpoints in memory, and a clock that advances in each wait; a wait also calls
/// `while_waiting`.
class Checkpoints {
 public:
  Checkpoints() : files_(std::make_shared<io::MemoryFileSystem>()) {}

  void save(std::int64_t step) {
    if (!saver_) {
      saver_.emplace(files_, checkpoint::SaverOptions{.directory = "/run",
                                                      .keep_last = 3,
                                                      .writing = checkpoint::Writing::kForeground});
    }
    saver_->save(step, {.tensors = {{"w", at::full({4}, static_cast<double>(step))}}});
  }
  /// Truncates the tensor file of the newest checkpoint by a byte, or appends one.
  void cut_newest() {
    change_newest([](std::string& bytes) { bytes.pop_back(); });
  }
  void flip_newest() {
    change_newest([](std::string& bytes) { bytes.back() = static_cast<char>(bytes.back() ^ 1); });
  }

  SessionEnvironment environment() {
    return {.files = files_, .clock = &clock, .wait = [this](auto time, const auto&) {
              clock.advance(time);
              if (while_waiting) while_waiting();
            }};
  }
  CheckpointsIteratorOptions options() {
    return {.timeout = std::chrono::seconds(10), .environment = environment()};
  }
  double seconds() const {
    return std::chrono::duration<double>(clock.now() - base::ManualClock().now()).count();
  }

  std::function<void()> while_waiting;
  base::ManualClock clock;

 private:
  template <class Change>
  void change_newest(const Change& change) {
    const io::Path folder = saver_->checkpoints().back();
    for (const std::string& name : files_->list(folder)) {
      if (!name.starts_with("tensors")) continue;
      std::string bytes = files_->read(folder / name);
      change(bytes);
      const auto file = files_->create(folder / name, io::CreateMode::kTruncate);
      file->write(std::as_bytes(std::span(bytes)));
      file->close();
    }
  }

  std::shared_ptr<io::MemoryFileSystem> files_;
  std::optional<checkpoint::Saver> saver_;
};

TEST(CheckpointsIterator, ReturnsEachNewCheckpointOnceAndAlwaysTheNewest) {
  Checkpoints checkpoints;
  CheckpointsIterator iterator("/run", checkpoints.options());
  checkpoints.save(1);
  EXPECT_EQ(iterator.next()->step(), 1);
  checkpoints.save(2);
  checkpoints.save(3);
  EXPECT_EQ(iterator.next()->step(), 3) << "a slow reader skips";
  EXPECT_EQ(iterator.next(), std::nullopt);
  EXPECT_EQ(checkpoints.seconds(), 10);
}

TEST(CheckpointsIterator, WaitsForADirectoryThatDoesNotExistYet) {
  Checkpoints checkpoints;
  checkpoints.while_waiting = [&] {
    if (checkpoints.seconds() == 4) checkpoints.save(0);
  };
  CheckpointsIterator iterator("/run", checkpoints.options());
  EXPECT_EQ(iterator.next()->step(), 0);
  EXPECT_EQ(checkpoints.seconds(), 4);
}

TEST(CheckpointsIterator, ReturnsASecondSaveOfAStepAndAnEarlierStep) {
  Checkpoints checkpoints;
  CheckpointsIterator iterator("/run", checkpoints.options());
  checkpoints.save(5);
  EXPECT_EQ(iterator.next()->step(), 5);
  checkpoints.save(5);
  EXPECT_EQ(iterator.next()->step(), 5);
  checkpoints.save(2);  // a training that started over
  EXPECT_EQ(iterator.next()->step(), 2);
  EXPECT_EQ(iterator.next(), std::nullopt);
}

TEST(CheckpointsIterator, SkipsABrokenNewestCheckpointWithOneWarning) {
  for (const bool is_cut : {true, false}) {
    Checkpoints checkpoints;
    const CapturedLog log;
    CheckpointsIterator iterator("/run", checkpoints.options());
    checkpoints.save(1);
    checkpoints.save(2);
    is_cut ? checkpoints.cut_newest() : checkpoints.flip_newest();
    EXPECT_EQ(iterator.next()->step(), 1);
    EXPECT_EQ(iterator.next(), std::nullopt) << "neither the broken one nor the old one again";
    EXPECT_THAT(iterator.passed_over(), SizeIs(1));
    EXPECT_TRUE(log.has("Skipped the broken checkpoint /run/ckpt-2"));
    checkpoints.save(3);
    EXPECT_EQ(iterator.next()->step(), 3);
    EXPECT_THAT(iterator.passed_over(), SizeIs(1));
  }
}

TEST(CheckpointsIterator, DoesNotGoBackWhenTheLastOneBreaks) {
  Checkpoints checkpoints;
  const CapturedLog log;
  CheckpointsIterator iterator("/run", checkpoints.options());
  checkpoints.save(1);
  checkpoints.save(2);
  EXPECT_EQ(iterator.next()->step(), 2);
  checkpoints.cut_newest();
  EXPECT_EQ(iterator.next(), std::nullopt);
}

TEST(CheckpointsIterator, LooksOnceMoreAtTheTimeout) {
  Checkpoints checkpoints;
  checkpoints.while_waiting = [&] {
    if (checkpoints.seconds() == 10) checkpoints.save(1);
  };
  CheckpointsIterator iterator("/run", checkpoints.options());
  EXPECT_EQ(iterator.next()->step(), 1);
}

TEST(CheckpointsIterator, AsksWhetherToKeepWaiting) {
  Checkpoints checkpoints;
  auto options = checkpoints.options();
  std::vector<double> asked;
  options.timeout_fn = [&] {
    asked.push_back(checkpoints.seconds());
    if (asked.size() == 2) checkpoints.save(7);
    return asked.size() < 4 ? AfterTimeout::kKeepWaiting : AfterTimeout::kEnd;
  };
  CheckpointsIterator iterator("/run", options);
  EXPECT_EQ(iterator.next()->step(), 7);
  EXPECT_EQ(iterator.next(), std::nullopt);
  EXPECT_THAT(asked, ElementsAre(10, 20, 30, 40));
}

TEST(CheckpointsIterator, KeepsTheIntervalAndSkipsCheckpointsInBetween) {
  Checkpoints checkpoints;
  auto options = checkpoints.options();
  options.min_interval = std::chrono::seconds(60);
  CheckpointsIterator iterator("/run", options);
  checkpoints.save(1);
  EXPECT_EQ(iterator.next()->step(), 1);
  checkpoints.clock.advance(std::chrono::seconds(20));  // the evaluation
  checkpoints.save(2);
  checkpoints.while_waiting = [&] { checkpoints.save(3); };
  EXPECT_EQ(iterator.next()->step(), 3);
  EXPECT_EQ(checkpoints.seconds(), 60);
}

TEST(CheckpointsIterator, CancellingEndsAWaitWithoutTimeout) {
  const concurrency::CancelToken cancel;
  const auto files = std::make_shared<io::MemoryFileSystem>();
  CheckpointsIterator waiting(
      "/run", {.poll = std::chrono::hours(1), .cancel = cancel, .environment = {.files = files}});
  std::optional<checkpoint::Checkpoint> found;
  std::thread reader([&] { found = waiting.next(); });
  cancel.cancel();
  reader.join();
  EXPECT_EQ(found, std::nullopt);
}

TEST(CheckpointsIterator, RefusesInvalidOptions) {
  const auto code_of = [](const io::Path& directory, const CheckpointsIteratorOptions& options) {
    return error_from([&] { CheckpointsIterator(directory, options); }).code();
  };
  EXPECT_EQ(code_of("", {}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of("/run", {.poll = milliseconds(0)}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of("/run", {.timeout = milliseconds(-1)}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of("/run", {.min_interval = milliseconds(-1)}), ErrorCode::kInvalidArgument);
}

TEST(WaitForNewCheckpoint, ComparesWithTheLastOne) {
  Checkpoints checkpoints;
  const CheckpointsIteratorOptions options{.timeout = std::chrono::seconds(5),
                                           .environment = checkpoints.environment()};
  EXPECT_EQ(wait_for_new_checkpoint("/run", std::nullopt, options), std::nullopt);
  EXPECT_EQ(checkpoints.seconds(), 5);
  checkpoints.save(1);
  const auto first = wait_for_new_checkpoint("/run", std::nullopt, options);
  EXPECT_EQ(first->step(), 1);
  EXPECT_EQ(wait_for_new_checkpoint("/run", std::nullopt, options)->step(), 1);
  EXPECT_EQ(wait_for_new_checkpoint("/run", first, options), std::nullopt);
  for (const int step : {2, 3, 4, 5}) checkpoints.save(step);  // the first one is gone
  EXPECT_EQ(wait_for_new_checkpoint("/run", first, options)->step(), 5);
}

}  // namespace
}  // namespace brigade::train
