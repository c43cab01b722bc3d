#include "brigade/data/sources/list_files.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "brigade/data/core/source.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/data/testing/file_folder.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Paths = std::vector<io::Path>;

std::shared_ptr<io::MemoryFileSystem> some_files() {
  auto files = std::make_shared<io::MemoryFileSystem>();
  for (const char* folder : {"/f/a", "/f/b", "/f/c.txt"}) files->create_directories(folder);
  for (const char* path : {"/f/a/1.txt", "/f/a/2.txt", "/f/a/10.txt", "/f/a/2.csv", "/f/b/3.txt",
                           "/f/b/.hidden.txt", "/f/x.txt"}) {
    files->create(path, io::CreateMode::kExclusive)->close();
  }
  return files;
}

TEST(MatchFiles, FindTheFilesThatMatchAPattern) {
  const auto files = some_files();
  EXPECT_EQ(match_files("/f/a/*.txt", files), (Paths{"/f/a/1.txt", "/f/a/10.txt", "/f/a/2.txt"}));
  EXPECT_EQ(match_files("/f/a/?.txt", files), (Paths{"/f/a/1.txt", "/f/a/2.txt"}));
  EXPECT_EQ(match_files("/f/a/[!1]*", files), (Paths{"/f/a/2.csv", "/f/a/2.txt"}));
  EXPECT_EQ(match_files("/f/*/[23].txt", files), (Paths{"/f/a/2.txt", "/f/b/3.txt"}));
  EXPECT_EQ(match_files("/f/x.txt", files), Paths{"/f/x.txt"});
  EXPECT_EQ(match_files("/f/*", files), Paths{"/f/x.txt"}) << "folders are no files";
  EXPECT_EQ(match_files("/f/b/*", files), Paths{"/f/b/3.txt"}) << "hidden files are not meant";
}

TEST(MatchFiles, FindFilesOfSeveralPatternsOnce) {
  EXPECT_EQ(match_files(std::vector<std::string>{"/f/b/*", "/f/*/3.txt", "/f/a/1*"}, some_files()),
            (Paths{"/f/a/1.txt", "/f/a/10.txt", "/f/b/3.txt"}));
}

TEST(MatchFiles, NameThePatternThatMatchesNothing) {
  for (const char* pattern : {"/f/*.png", "/missing/*", "/f/x.txt/*", "/f/missing"}) {
    const Error error = error_of([&] { match_files(pattern, some_files()); });
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_NE(std::string(error.what()).find(pattern), std::string::npos) << error.what();
  }
  expect_invalid_argument([] { match_files(""); }, "a pattern is empty");
}

TEST(MatchFiles, UseTheLocalFileSystemByDefault) {
  EXPECT_EQ(match_files("/proc/self/statu[s]"), Paths{"/proc/self/status"});
}

TEST(ListFiles, KeepTheDatasetContract) {
  const auto files = some_files();
  expect_contract(list_files({"/f/a/*.txt"}, {.order = FileOrder::kByName, .file_system = files}),
                  {"/f/a/1.txt", "/f/a/10.txt", "/f/a/2.txt"});
  const auto shuffled = list_files({"/f/*/*"}, {.file_system = files});
  expect_contract(shuffled, epoch_of(shuffled));
}

TEST(ListFiles, AreShuffledDifferentlyInEachEpoch) {
  const auto files = some_files();
  const auto shuffled = list_files({"/f/*/*"}, {.seed = 5, .file_system = files});
  Paths first = epoch_of(shuffled), second = epoch_of(shuffled, {.epoch = 1});
  EXPECT_NE(first, second);
  EXPECT_EQ(first, epoch_of(list_files({"/f/*/*"}, {.seed = 5, .file_system = files})));
  std::sort(first.begin(), first.end());
  EXPECT_EQ(first, match_files("/f/*/*", files));
}

TEST(ListFiles, AreShardedByFilesWhateverReadsThem) {
  const auto files = some_files();
  const auto read = list_files({"/f/*/*"}, {.file_system = files})
                        .interleave([](const io::Path& path) {
                          return from_elements<io::Path>({path, path.filename()});
                        })
                        .batch(2);
  EXPECT_EQ(read.sharding().files, 5);
  EXPECT_EQ(read.sharding().counting_step, "");
}

TEST(ListFiles, ShardsTogetherHaveEachFileOnceInAnyOrder) {
  const auto files = some_files();
  for (const auto order : {FileOrder::kByName, FileOrder::kShuffled}) {
    const auto list = list_files({"/f/*/*"}, {.order = order, .file_system = files});
    for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
      Paths all;
      for (std::int64_t index = 0; index < 3; ++index) {
        auto iterator = list.iterator({.epoch = epoch, .shard = {.count = 3, .index = index}});
        const auto part = rest_of(iterator);
        EXPECT_EQ(part.size(), index < 2 ? 2U : 1U);
        all.insert(all.end(), part.begin(), part.end());
      }
      std::sort(all.begin(), all.end());
      EXPECT_EQ(all, match_files("/f/*/*", files));
    }
  }
}

TEST(ListFiles, AShardResumesAtASavedPosition) {
  const auto list = list_files({"/f/*/*"}, {.file_system = some_files()});
  const IteratorOptions half{.seed = 3, .shard = {.count = 2, .index = 0}};
  const Paths whole = epoch_of(list, half);
  ASSERT_EQ(whole.size(), 3U);
  auto iterator = list.iterator(half);
  for (std::size_t index = 0; index <= whole.size(); ++index) {
    auto other = list.iterator(half);
    other.restore(json_round_trip(iterator.save()));
    EXPECT_EQ(rest_of(other), elements_from(whole, index));
    iterator.next();
  }
}

TEST(ListFiles, RefuseThePositionOfOtherFiles) {
  auto files = some_files();
  const io::StateTree state = list_files({"/f/*/*"}, {.file_system = files}).iterator().save();
  files->create("/f/b/4.txt", io::CreateMode::kExclusive)->close();
  expect_invalid_argument(
      [&] { list_files({"/f/*/*"}, {.file_system = files}).iterator().restore(state); }, "5 files");
}

}  // namespace
}  // namespace brigade::data
