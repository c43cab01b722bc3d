// What is left of a directory when one of several writers, or their machine, stops anywhere in a
// save.
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "brigade/base/log.h"
#include "brigade/checkpoint/checkpoint.h"
#include "brigade/checkpoint/testing/sample.h"
#include "brigade/checkpoint/testing/writing_job.h"
#include "brigade/io/testing/crashing_file_system.h"
#include "brigade/io/testing/faulty_file_system.h"

namespace brigade::checkpoint {
namespace {

using testing::caught;
using testing::sample;
using testing::WritingJob;

const io::Path kSharedRun = "/run";
constexpr int kWriters = 3;

/// Which step the newest whole checkpoint holds, with all values; -1: there is none.
std::int64_t held(const std::shared_ptr<const io::FileSystem>& files) {
  const LatestComplete found = find_latest_complete(files, kSharedRun);
  if (!found.checkpoint) return -1;
  found.checkpoint->verify();
  const Contents expected = sample(found.checkpoint->step());
  EXPECT_EQ(found.checkpoint->state(), expected.state);
  for (const NamedTensor& each : expected.tensors) {
    EXPECT_TRUE(at::equal(found.checkpoint->tensor(each.name, Section::kTensors), each.tensor));
  }
  return found.checkpoint->step();
}

/// A disk on which a save of step 2 was stopped at an operation of one rank, who is lost then, as a
/// process that is killed.
struct CrashScene {
  std::shared_ptr<io::CrashingFileSystem> disk = std::make_shared<io::CrashingFileSystem>();
  bool has_returned = false;  // from the chief's save
  bool was_hit = false;
};

CrashScene play(int victim, std::size_t operation) {
  CrashScene scene;
  std::vector<std::shared_ptr<io::FaultyFileSystem>> faulty;
  std::vector<std::shared_ptr<io::FileSystem>> files;
  for (int rank = 0; rank < kWriters; ++rank) {
    faulty.push_back(std::make_shared<io::FaultyFileSystem>(scene.disk));
    files.push_back(faulty.back());
  }
  WritingJob job(files, {.directory = kSharedRun, .keep_last = 1, .shards = 4});
  job.save(1, sample(1));
  job.wait();
  const auto& hit = faulty[static_cast<std::size_t>(victim)];
  const std::size_t before = hit->operations();
  hit->inject(
      {.after = operation, .code = ErrorCode::kUnavailable, .length = io::FaultLength::kEverAfter});
  job.save(2, sample(2));
  scene.has_returned = caught([&] { job.saver->wait(); }).code == ErrorCode::kInternal;
  scene.was_hit = hit->operations() > before + operation;
  return scene;
}

const std::vector<io::Crash> kCrashes = {
    {},
    {.names = io::Survivors::kAll, .data = io::Survivors::kAll},
    {.names = io::Survivors::kAll},
    {.data = io::Survivors::kAll},
    {.names = io::Survivors::kSome, .data = io::Survivors::kSome, .seed = 1},
    {.names = io::Survivors::kSome, .data = io::Survivors::kSome, .seed = 2},
};

/// The next life of the job saves, and leaves nothing of the one before.
void check_goes_on(const std::shared_ptr<io::CrashingFileSystem>& disk) {
  WritingJob job({disk, disk, disk}, {.directory = kSharedRun, .keep_last = 1});
  job.save(3, sample(3));
  job.wait();
  EXPECT_EQ(held(disk), 3);
  for (const std::string& name : disk->list(kSharedRun)) EXPECT_NE(name.front(), '.') << name;
}

/// Returns how many operations there were.
std::size_t stop_everywhere(int victim) {
  for (std::size_t operation = 0;; ++operation) {
    const CrashScene scene = play(victim, operation);
    for (const io::Crash& crash : kCrashes) {
      const auto disk = scene.disk->crash(crash);
      const std::int64_t step = held(disk);
      EXPECT_TRUE(step == 2 || (step == 1 && !scene.has_returned)) << step << " at " << operation;
    }
    check_goes_on(scene.disk->crash(kCrashes.back()));
    if (!scene.was_hit || ::testing::Test::HasFailure()) return operation;
  }
}

class ShardWriterCrash : public ::testing::Test {
 protected:
  ShardWriterCrash() {
    base::set_log_sink([](base::LogLevel, std::string_view) {});
  }
  ~ShardWriterCrash() override { base::set_log_sink({}); }
};

TEST_F(ShardWriterCrash, OfTheChiefLeavesTheOldOrTheNew) {
  EXPECT_GT(stop_everywhere(0), 15u);
}

TEST_F(ShardWriterCrash, OfAnotherLeavesTheOldOrTheNew) {
  EXPECT_GE(stop_everywhere(1), 4u);
}

}  // namespace
}  // namespace brigade::checkpoint
