#include "brigade/io/testing/crashing_file_system.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "brigade/io/atomic_write.h"

namespace brigade::io {
namespace {

constexpr Crash kAllLost = {};
constexpr Crash kAllSurvives = {.names = Survivors::kAll, .data = Survivors::kAll};
constexpr Crash kNamesOnly = {.names = Survivors::kAll, .data = Survivors::kNone};
constexpr int kSeeds = 200;

Crash drawn(std::uint64_t seed) {
  return {.names = Survivors::kSome, .data = Survivors::kSome, .seed = seed};
}

enum class Sync { kNo, kYes };

void write(FileSystem& files, const Path& path, std::string_view text, Sync sync = Sync::kNo) {
  const auto file = files.create(path, CreateMode::kTruncate);
  file->write(as_bytes(text));
  if (sync == Sync::kYes) file->sync();
  file->close();
}

/// A folder /run with a file `a` with the content "old", all synced.
void fill(CrashingFileSystem& files) {
  files.create_directories("/run");
  files.sync_directory("/");
  write(files, "/run/a", "old", Sync::kYes);
  files.sync_directory("/run");
}

/// The results of `look` for every possible state after a crash.
template <class Look>
auto every_result(const CrashingFileSystem& files, Look look) {
  std::set<decltype(look(files))> results;
  for (int seed = 0; seed < kSeeds; ++seed) {
    results.insert(look(*files.crash(drawn(static_cast<std::uint64_t>(seed)))));
  }
  return results;
}

std::string names(const FileSystem& files) {
  std::string text;
  for (const std::string& name : files.list("/run")) text += name;
  return text;
}

TEST(CrashingFileSystem, KeepsSyncedDataToWhichMoreIsAppended) {
  CrashingFileSystem files;
  fill(files);
  const auto file = files.create("/run/b", CreateMode::kExclusive);
  files.sync_directory("/run");
  file->write(as_bytes("safe"));
  file->sync();
  file->write(as_bytes("+"));
  const auto results = every_result(files, [](const auto& f) { return f.read("/run/b"); });
  EXPECT_EQ(results, (std::set<std::string>{"safe", "safe+", std::string("safe\0", 5)}));
}

TEST(CrashingFileSystem, KeepsSyncedDataInEveryCrash) {
  CrashingFileSystem files;
  fill(files);
  const auto results = every_result(files, [](const auto& f) { return f.read("/run/a"); });
  EXPECT_EQ(results, (std::set<std::string>{"old"}));
  EXPECT_EQ(files.crash(kAllLost)->read("/run/a"), "old");
}

TEST(CrashingFileSystem, LosesAnUnsyncedFolderWithItsContent) {
  CrashingFileSystem files;
  files.create_directories("/run");
  write(files, "/run/a", "new", Sync::kYes);
  files.sync_directory("/run");
  EXPECT_FALSE(files.crash(kAllLost)->exists("/run"));
  EXPECT_EQ(files.crash(kAllSurvives)->read("/run/a"), "new");
  EXPECT_EQ(files.read("/run/a"), "new") << "the crash has changed the files themselves";
}

TEST(CrashingFileSystem, ANameMaySurviveWithoutItsContent) {
  CrashingFileSystem files;
  fill(files);
  write(files, "/run/b", "new");
  files.rename("/run/b", "/run/a");
  EXPECT_EQ(files.crash(kNamesOnly)->read("/run/a"), "");
  EXPECT_EQ(files.crash(kAllLost)->read("/run/a"), "old");
}

TEST(CrashingFileSystem, ARenameSurvivesCompletelyOrNotAtAll) {
  CrashingFileSystem files;
  fill(files);
  files.rename("/run/a", "/run/b");
  EXPECT_EQ(every_result(files, names), (std::set<std::string>{"a", "b"}));
}

TEST(CrashingFileSystem, ChangesOfAFolderSurviveInAnyCombination) {
  CrashingFileSystem files;
  fill(files);
  write(files, "/run/b", "");
  write(files, "/run/c", "");
  files.remove("/run/a");
  EXPECT_EQ(every_result(files, names),
            (std::set<std::string>{"", "a", "ab", "abc", "ac", "b", "bc", "c"}));
}

TEST(CrashingFileSystem, TearsContentBySectorsAndBySize) {
  CrashingFileSystem files;
  fill(files);
  const std::string text = std::string(512, 'x') + std::string(512, 'y') + "zz";
  write(files, "/run/b", text);
  files.sync_directory("/run");
  const auto results = every_result(files, [](const auto& f) { return f.read("/run/b"); });
  EXPECT_TRUE(results.contains(""));
  EXPECT_TRUE(results.contains(text));
  const std::string hole(512, '\0');
  EXPECT_TRUE(results.contains(hole + std::string(512, 'y') + "zz"));
  EXPECT_TRUE(std::any_of(results.begin(), results.end(), [&](const std::string& each) {
    return !each.empty() && each.size() < 512 && text.starts_with(each);
  }));
  for (const std::string& each : results) EXPECT_LE(each.size(), text.size());
}

TEST(CrashingFileSystem, OverwritingMixesOldSectorsWithNewOnes) {
  CrashingFileSystem files;
  fill(files);
  write(files, "/run/a", std::string(1024, 'o'), Sync::kYes);
  write(files, "/run/a", std::string(1024, 'n'));
  const auto results = every_result(files, [](const auto& f) { return f.read("/run/a"); });
  EXPECT_TRUE(results.contains(std::string(512, 'o') + std::string(512, 'n')));
  EXPECT_TRUE(results.contains(""));
}

TEST(CrashingFileSystem, OverwritingWithoutTruncationLosesNoSyncedSector) {
  CrashingFileSystem files;
  fill(files);
  write(files, "/run/a", std::string(1024, 'o'), Sync::kYes);
  const auto file = files.create("/run/a", CreateMode::kOverwrite);
  file->write(as_bytes(std::string(512, 'n')));
  const auto results = every_result(files, [](const auto& f) { return f.read("/run/a"); });
  const std::string kept(512, 'o');
  EXPECT_EQ(results, (std::set<std::string>{kept + kept, std::string(512, 'n') + kept}));
}

TEST(CrashingFileSystem, TheSameSeedGivesTheSameState) {
  CrashingFileSystem files;
  fill(files);
  write(files, "/run/b", std::string(5000, 'x'));
  files.sync_directory("/run");
  const auto left = [&](std::uint64_t seed) { return files.crash(drawn(seed))->read("/run/b"); };
  EXPECT_EQ(left(3), left(3));
}

TEST(CrashingFileSystem, AnAtomicWriteIsOldOrNewAfterAnyCrash) {
  CrashingFileSystem files;
  fill(files);
  atomic_write(files, "/run/a", "new");
  EXPECT_EQ(every_result(files, [](const auto& f) { return f.read("/run/a"); }),
            (std::set<std::string>{"new"}));
}

}  // namespace
}  // namespace brigade::io
