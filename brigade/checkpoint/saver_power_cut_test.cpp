// The state of a directory after the machine stops at any point of a save, on a disk that loses,
// tears and reorders unsynced data.
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <vector>

#include "brigade/base/strings.h"
#include "brigade/checkpoint/checkpoint.h"
#include "brigade/checkpoint/saver.h"
#include "brigade/checkpoint/testing/sample.h"
#include "brigade/io/testing/crashing_file_system.h"
#include "brigade/io/testing/faulty_file_system.h"

namespace brigade::checkpoint {
namespace {

using io::CrashingFileSystem;
using io::Survivors;
using testing::caught;
using testing::sample;

const io::Path kHomeRun = "/home/me/run";
using Crashes = std::vector<io::Crash>;

/// Every rule for which data survives, with several seeds for the random ones.
Crashes all_crashes() {
  Crashes all;
  const Survivors rules[] = {Survivors::kNone, Survivors::kAll, Survivors::kSome};
  for (const Survivors names : rules) {
    for (const Survivors data : rules) {
      const int draws = (names == Survivors::kSome ? 4 : 1) * (data == Survivors::kSome ? 4 : 1);
      for (int seed = 0; seed < draws; ++seed)
        all.push_back({.names = names, .data = data, .seed = static_cast<std::uint64_t>(seed)});
    }
  }
  return all;
}

/// The rules that lose the most in one way, and a few random ones.
Crashes few_crashes() {
  Crashes few = {{}, {.names = Survivors::kAll}, {.data = Survivors::kAll}};
  for (std::uint64_t seed = 0; seed < 3; ++seed)
    few.push_back({.names = Survivors::kSome, .data = Survivors::kSome, .seed = seed});
  return few;
}

SaverOptions options(std::size_t shards) {
  return {.directory = kHomeRun, .keep_last = 1, .writing = Writing::kForeground, .shards = shards};
}

/// Contents that differ in every value, and fill several sectors.
Contents contents(std::int64_t value) {
  Contents all = sample(value);
  all.tensors.push_back({"large", at::full({300}, static_cast<double>(value), at::kDouble)});
  return all;
}

/// The index in `saved` of the newest complete checkpoint, after comparing its content: -1 if there
/// is no checkpoint, -2 if it equals none of them.
std::int64_t held(const std::shared_ptr<const io::FileSystem>& files,
                  std::initializer_list<std::int64_t> saved) {
  const LatestComplete found = find_latest_complete(files, kHomeRun);
  if (!found.checkpoint) return -1;
  for (const std::int64_t value : saved) {
    const Contents expected = contents(value);
    bool is_same = found.checkpoint->state() == expected.state &&
                   found.checkpoint->metrics() == expected.metrics;
    for (const NamedTensor& each : expected.tensors) {
      is_same =
          is_same && at::equal(found.checkpoint->tensor(each.name, Section::kTensors), each.tensor);
    }
    if (is_same) return value;
  }
  return -2;
}

/// A save to be interrupted, and the state before it.
struct Story {
  std::size_t shards = 1;
  std::int64_t old_step = 1, new_step = 2;
  bool has_old = true;
};

/// A disk in the middle of a scenario.
struct PowerCut {
  std::shared_ptr<CrashingFileSystem> disk = std::make_shared<CrashingFileSystem>();
  bool has_returned = false;  // from the save
};

/// Runs the scenario until the machine stops at an operation, or to its end.
PowerCut play(const Story& story, std::size_t operation) {
  PowerCut scene;
  const auto files = std::make_shared<io::FaultyFileSystem>(scene.disk);
  const io::Fault stop{
      .after = operation, .code = ErrorCode::kUnavailable, .length = io::FaultLength::kEverAfter};
  if (!story.has_old) files->inject(stop);
  caught([&] {
    Saver saver(files, options(story.shards));
    if (story.has_old) {
      saver.save(story.old_step, contents(1));
      files->inject(stop);
    }
    const auto error = caught([&] { saver.save(story.new_step, contents(2)); });
    scene.has_returned = error.code == ErrorCode::kInternal;  // nothing thrown
  });
  return scene;
}

struct Tried {
  std::size_t operations = 0, crashes = 0, kept_old = 0, has_new = 0;
};

/// Compares the disk after a crash with what must be there.
void check(const Story& story, const PowerCut& scene, const io::Crash& crash, Tried& tried) {
  const auto disk = scene.disk->crash(crash);
  const std::int64_t left = held(disk, {1, 2});
  ++tried.crashes;
  if (left == 2) ++tried.has_new;
  if (left == 1) ++tried.kept_old;
  const std::int64_t old = story.has_old ? 1 : -1;
  const std::string where =
      base::str_cat("operation ", tried.operations, ", names ", static_cast<int>(crash.names),
                    ", data ", static_cast<int>(crash.data), ", seed ", crash.seed);
  if (scene.has_returned) {
    ASSERT_EQ(left, 2) << "the save had returned; " << where;
  } else {
    ASSERT_TRUE(left == old || left == 2) << left << "; " << where;
  }
}

/// After the crash training continues: a new saver saves, and its checkpoint survives any crash.
void check_goes_on(const Story& story, const PowerCut& scene, const io::Crash& crash) {
  const auto disk = scene.disk->crash(crash);
  Saver next(disk, options(story.shards));
  next.save(3, contents(3));
  EXPECT_EQ(held(disk->crash({}), {3}), 3);
  const auto names = disk->list(kHomeRun);
  for (const std::string& name : names) EXPECT_NE(name.front(), '.') << "left over: " << name;
}

Tried stop_everywhere(const Story& story) {
  Tried tried;
  const Crashes all = all_crashes();
  for (bool is_done = false; !is_done; ++tried.operations) {
    const PowerCut scene = play(story, tried.operations);
    for (const io::Crash& crash : all) {
      check(story, scene, crash, tried);
      if (::testing::Test::HasFatalFailure()) return tried;
    }
    check_goes_on(story, scene, all.back());
    is_done = scene.has_returned;
  }
  std::cout << tried.operations << " operations, " << tried.crashes
            << " crashes: " << tried.kept_old << " kept the old, " << tried.has_new
            << " have the new\n";
  return tried;
}

TEST(SaverPowerCut, LeavesTheOldOrTheNew) {
  const Tried tried = stop_everywhere({});
  EXPECT_GT(tried.operations, 15u);
  EXPECT_GT(tried.kept_old, 100u);
  EXPECT_GT(tried.has_new, 100u);
}

TEST(SaverPowerCut, AmongShardsLeavesTheOldOrTheNew) {
  EXPECT_GT(stop_everywhere({.shards = 3}).operations, 25u);
}

TEST(SaverPowerCut, OfAStepSavedAgainLeavesTheOldOrTheNew) {
  stop_everywhere({.old_step = 2, .new_step = 2});
}

TEST(SaverPowerCut, OfTheFirstSaveLeavesNothingOrACompleteCheckpoint) {
  stop_everywhere({.has_old = false});
}

// A summary writer creates the folder before the saver, without syncing it.
TEST(SaverPowerCut, AFolderMadeByAnotherWriterIsNotLost) {
  const auto disk = std::make_shared<CrashingFileSystem>();
  disk->create_directories(kHomeRun);
  Saver saver(disk, options(1));
  saver.save(2, contents(2));
  for (const io::Crash& crash : all_crashes()) ASSERT_EQ(held(disk->crash(crash), {2}), 2);
}

/// The disk fails once or permanently, the program exits with the error, and then the machine stops
/// too.
TEST(SaverPowerCut, AfterAFullOrBrokenDiskLeavesTheOldOrTheNew) {
  for (const ErrorCode code : {ErrorCode::kResourceExhausted, ErrorCode::kDataLoss}) {
    for (const auto length : {io::FaultLength::kOnce, io::FaultLength::kEverAfter}) {
      bool has_failed = true;
      for (std::size_t operation = 0; has_failed; ++operation) {
        const auto disk = std::make_shared<CrashingFileSystem>();
        const auto files = std::make_shared<io::FaultyFileSystem>(disk);
        Saver saver(files, options(1));
        saver.save(1, contents(1));
        files->inject({.after = operation, .code = code, .length = length});
        const auto error = caught([&] { saver.save(2, contents(2)); });
        has_failed = error.code != ErrorCode::kInternal;
        if (has_failed) {
          ASSERT_EQ(error.code, code) << error.message;
        }
        for (const io::Crash& crash : few_crashes()) {
          const std::int64_t left = held(disk->crash(crash), {1, 2});
          ASSERT_TRUE(left == 2 || (has_failed && left == 1)) << left << " at " << operation;
        }
        files->heal();
        saver.save(2, contents(2));
        ASSERT_EQ(held(disk->crash({}), {2}), 2) << "made good; operation " << operation;
      }
    }
  }
}

}  // namespace
}  // namespace brigade::checkpoint
