// After a save stops at any point, the directory holds the old checkpoint or the new one, complete.
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "brigade/checkpoint/checkpoint.h"
#include "brigade/checkpoint/saver.h"
#include "brigade/checkpoint/testing/sample.h"
#include "brigade/io/testing/faulty_file_system.h"
#include "brigade/io/testing/memory_file_system.h"

namespace brigade::checkpoint {
namespace {

using testing::caught;
using testing::sample;

SaverOptions foreground(const io::Path& directory, std::size_t shards = 1) {
  return {
      .directory = directory, .keep_last = 1, .writing = Writing::kForeground, .shards = shards};
}

/// The step of the newest complete checkpoint, after comparing its content with what was saved.
std::int64_t whole_step(const std::shared_ptr<const io::FileSystem>& files,
                        const io::Path& directory) {
  const LatestComplete found = find_latest_complete(files, directory);
  EXPECT_TRUE(found.checkpoint.has_value());
  for (const BrokenCheckpoint& each : found.broken) ADD_FAILURE() << each.reason;
  if (!found.checkpoint) return -1;
  const std::int64_t step = found.checkpoint->step();
  EXPECT_EQ(found.checkpoint->state(), sample(step).state);
  for (const NamedTensor& each : sample(step).tensors) {
    EXPECT_TRUE(at::equal(found.checkpoint->tensor(each.name, Section::kTensors), each.tensor));
  }
  return step;
}

struct Fault {
  ErrorCode code;
  io::FaultLength length;
  bool crashes;  // of the machine: unsynced data is lost
};

/// Saves step 2 after step 1, with a fault at every operation. Returns how many there were.
std::size_t try_every_operation(const Fault& fault, std::size_t shards) {
  for (std::size_t operation = 0;; ++operation) {
    const auto memory = std::make_shared<io::MemoryFileSystem>();
    const auto files = std::make_shared<io::FaultyFileSystem>(memory);
    bool failed = false;
    {
      Saver saver(files, foreground("/run", shards));
      saver.save(1, sample(1));
      files->inject({.after = operation, .code = fault.code, .length = fault.length});
      failed = caught([&] { saver.save(2, sample(2)); }).code == fault.code;
      if (fault.crashes) memory->drop_unsynced();
    }
    files->heal();
    const std::int64_t step = whole_step(memory, "/run");
    EXPECT_TRUE(step == 2 || (failed && step == 1)) << "operation " << operation;
    Saver next(files, foreground("/run", shards));  // training continues
    next.save(3, sample(3));
    EXPECT_EQ(whole_step(memory, "/run"), 3) << "operation " << operation;
    EXPECT_EQ(checkpoint_paths(*memory, "/run").size(), 1u) << "operation " << operation;
    if (!failed || ::testing::Test::HasFailure()) return operation;
  }
}

TEST(SaverCrash, AFaultAtAnyOperationLeavesTheOldOrTheNew) {
  for (const ErrorCode code : {ErrorCode::kResourceExhausted, ErrorCode::kDataLoss}) {
    for (const auto length : {io::FaultLength::kOnce, io::FaultLength::kEverAfter}) {
      for (const bool crashes : {false, true}) {
        EXPECT_GT(try_every_operation({code, length, crashes}, 1), 20u);
      }
    }
  }
}

TEST(SaverCrash, AFaultAmongShardsLeavesTheOldOrTheNew) {
  EXPECT_GT(try_every_operation({ErrorCode::kDataLoss, io::FaultLength::kEverAfter, true}, 3), 25u);
}

TEST(SaverCrash, TheSameSaverRecoversFromAFailedSave) {
  for (std::size_t operation = 0; operation < 30; ++operation) {
    const auto files =
        std::make_shared<io::FaultyFileSystem>(std::make_shared<io::MemoryFileSystem>());
    Saver saver(files, foreground("/run"));
    saver.save(1, sample(1));
    files->inject({.after = operation, .code = ErrorCode::kDataLoss});
    caught([&] { saver.save(2, sample(2)); });
    files->heal();
    saver.save(2, sample(2));
    EXPECT_EQ(whole_step(files, "/run"), 2) << operation;
    EXPECT_EQ(checkpoint_paths(*files, "/run").size(), 1u) << operation;
  }
}

/// Saves in a loop, and writes to the pipe before each save, until it is killed.
[[noreturn]] void save_until_killed(const io::Path& directory, int pipe, std::int64_t from) {
  try {
    Saver saver(io::posix_file_system(), {.directory = directory, .keep_last = 2, .shards = 2});
    for (std::int64_t step = from;; ++step) {
      saver.save(step, sample(step));
      if (::write(pipe, "s", 1) != 1) break;
    }
  } catch (...) {  // the parent notices that the pipe closed
  }
  ::_exit(1);
}

TEST(SaverCrash, AKilledProcessLeavesTheOldOrTheNew) {
  constexpr int kKills = 25;
  const io::Path directory =
      std::filesystem::temp_directory_path() / ("brigade-kill-" + std::to_string(::getpid()));
  std::filesystem::remove_all(directory);
  const std::shared_ptr<io::FileSystem> files = io::posix_file_system();
  std::int64_t last = 0;
  int left_half = 0;
  for (int kill = 0; kill < kKills; ++kill) {
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) save_until_killed(directory, pipe[1], last + 1);
    ::close(pipe[1]);
    // The third save begins when the second is on the disk; then anything from 0 to 6 ms later.
    char byte = 0;
    for (int saves = 0; saves < 3; ++saves) ASSERT_EQ(::read(pipe[0], &byte, 1), 1);
    std::this_thread::sleep_for(std::chrono::microseconds(250 * kill));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
    ::close(pipe[0]);
    const std::int64_t step = whole_step(files, directory);
    EXPECT_GE(step, last + 2) << "a finished save was lost";
    for (const std::string& name : files->list(directory)) left_half += name.ends_with(".saving");
    last = step;
  }
  EXPECT_GT(left_half, 0) << "no kill happened during a save";
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace brigade::checkpoint
