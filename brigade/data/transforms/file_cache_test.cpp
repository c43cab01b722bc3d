#include "brigade/data/transforms/file_cache.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "brigade/base/log.h"
#include "brigade/data/core/source.h"
#include "brigade/data/dataset.h"
#include "brigade/data/sources/files.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/io/testing/faulty_file_system.h"
#include "brigade/io/testing/memory_file_system.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Numbers = std::vector<std::int64_t>;

/// A memory file system, and a pipeline that counts what it makes.
class FileCache : public ::testing::Test {
 protected:
  FileCache() { files_->create_directories("/cache"); }
  ~FileCache() override { base::set_log_sink({}); }

  Dataset<std::int64_t> input(std::int64_t size) const {
    return range(size).shuffle(4).map([made = made_](std::int64_t x) {
      ++*made;
      return x;
    });
  }
  template <class T>
  Dataset<T> cached(const Dataset<T>& dataset, const io::Path& path = "/cache/a") const {
    return dataset.cache(path, {.file_system = files_});
  }
  /// What is left of a fill when it is over: nothing but the folder.
  std::vector<std::string> names() const { return files_->list("/cache"); }
  void catch_warnings() {
    base::set_log_sink([this](base::LogLevel level, std::string_view text) {
      if (level == base::LogLevel::kWarning) warnings_.emplace_back(text);
    });
  }

  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
  std::shared_ptr<std::atomic<int>> made_ = std::make_shared<std::atomic<int>>(0);
  std::vector<std::string> warnings_;
};

TEST_F(FileCache, KeepsTheDatasetContract) {
  expect_contract(cached(range(5)), {0, 1, 2, 3, 4});
  expect_contract(cached(range(0), "/cache/none"), {});
  const auto shuffled = range(12).shuffle(7);
  const auto deep = cached(shuffled, "/cache/deep").shuffle(4).batch(3).prefetch(2);
  expect_contract(deep, epoch_of(shuffled.cache().shuffle(4).batch(3)));
}

TEST_F(FileCache, SnapshotsKeepTheDatasetContract) {
  for (const std::int64_t files : {1, 3}) {
    for (const auto compression : {io::Compression::kNone, io::Compression::kGzip}) {
      SCOPED_TRACE(::testing::Message() << files << " files, " << to_string(compression));
      const auto shuffled = range(11).shuffle(5);
      const io::Path path = "/cache/" + std::to_string(files) + std::string(to_string(compression));
      expect_contract(shuffled.snapshot(path, {files, compression, files_}), epoch_of(shuffled));
      EXPECT_EQ(epoch_of(shuffled.snapshot(path, {files, compression, files_})),
                epoch_of(shuffled));
    }
  }
}

TEST_F(FileCache, KeepsTheDatasetContractBeforeItIsFilled) {
  const auto dataset = cached(input(7));
  const auto expected = epoch_of(input(7));
  for (std::size_t index = 0; index <= expected.size(); ++index) {
    auto iterator = cached(input(7), "/cache/" + std::to_string(index)).iterator();
    for (std::size_t i = 0; i < index; ++i) iterator.next();
    const io::StateTree state = json_round_trip(iterator.save());
    auto fresh = dataset.iterator();
    fresh.restore(state);
    EXPECT_EQ(rest_of(fresh), elements_from(expected, index));
    iterator.restore(state);  // goes back, or stays
    EXPECT_EQ(rest_of(iterator), elements_from(expected, index));
  }
}

TEST_F(FileCache, GoesBackWhileItIsFilledAndWritesEachElementOnce) {
  const auto dataset = cached(input(6));
  const auto expected = epoch_of(input(6));
  auto iterator = dataset.node()->iterator({});
  EXPECT_EQ(iterator->next(), expected[0]);
  const io::StateTree state = iterator->save();
  for (int i = 0; i < 3; ++i) iterator->next();
  iterator->restore(state);
  for (std::size_t index = 1; index < 6; ++index) EXPECT_EQ(iterator->next(), expected[index]);
  EXPECT_FALSE(iterator->next().has_value());
  *made_ = 0;
  EXPECT_EQ(epoch_of(dataset), expected);
  EXPECT_EQ(*made_, 0);
}

TEST_F(FileCache, IsReadByLaterEpochsAndLaterRuns) {
  const auto first = cached(input(6));
  const Numbers order = epoch_of(input(6), {.seed = 3});
  *made_ = 0;
  auto iterator = first.iterator({.seed = 3});
  EXPECT_EQ(rest_of(iterator), order);
  iterator.start_next_epoch();
  EXPECT_EQ(rest_of(iterator), order);
  EXPECT_EQ(epoch_of(cached(input(6)), {.seed = 3, .epoch = 5}), order) << "another run";
  EXPECT_EQ(*made_, 6);
  EXPECT_EQ(names(), (std::vector<std::string>{"a"}));
}

TEST_F(FileCache, SkipsWithoutReading) {
  epoch_of(cached(input(1000)));
  const auto dataset = cached(input(1000));
  auto iterator = dataset.node()->iterator({});
  EXPECT_EQ(iterator->skip(990), 990U);
  EXPECT_EQ(iterator->next(), epoch_of(input(1000))[990]);
}

TEST_F(FileCache, APositionIsFilledUpToInAFreshProcess) {
  auto saved = cached(input(10)).iterator();
  for (int i = 0; i < 4; ++i) saved.next();
  const io::StateTree state = json_round_trip(saved.save());
  auto fresh = cached(input(10)).iterator();
  fresh.restore(state);
  EXPECT_EQ(rest_of(fresh), elements_from(epoch_of(input(10)), 4));
  *made_ = 0;
  EXPECT_EQ(epoch_of(cached(input(10))), epoch_of(range(10).shuffle(4)));
  EXPECT_EQ(*made_, 0) << "the resumed epoch has filled it";
}

TEST_F(FileCache, APartialPassLeavesNothingAndIsLoggedOnce) {
  catch_warnings();
  const auto dataset = cached(input(6));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(epoch_of(dataset.take(4)).size(), 4U);
  EXPECT_EQ(names(), std::vector<std::string>());
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_NE(warnings_[0].find("cache ended after 4 elements"), std::string::npos);
}

TEST_F(FileCache, ALinkAtItsPathIsNeitherFilledNorCleared) {
  std::string pattern = (std::filesystem::temp_directory_path() / "brigade-cache-XXXXXX").string();
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  const io::Path root = pattern;
  std::filesystem::create_directory(root / "elsewhere");
  std::ofstream(root / "elsewhere" / "precious") << "mine";
  const std::string name = ".a." + std::to_string(::getpid()) + ".0.tmp";
  std::filesystem::create_directory_symlink(root / "elsewhere", root / name);
  const auto dataset = range(6).cache(root / "a", {.file_system = io::posix_file_system()});
  EXPECT_EQ(epoch_of(dataset.take(4)).size(), 4U);  // given up, so that what was written goes
  EXPECT_EQ(epoch_of(dataset).size(), 6U);
  EXPECT_EQ(io::posix_file_system()->list(root / "elsewhere"),
            std::vector<std::string>{"precious"});
  EXPECT_TRUE(std::filesystem::is_symlink(root / name));
  EXPECT_TRUE(std::filesystem::exists(root / "a" / "index.json"));
  std::filesystem::remove_all(root);
}

TEST_F(FileCache, AProcessThatDiedLeavesNothingThatIsRead) {
  for (std::size_t operations = 0;; ++operations) {
    auto disk = std::make_shared<io::MemoryFileSystem>();
    auto dying = std::make_shared<io::FaultyFileSystem>(disk);
    dying->inject({.after = operations, .length = io::FaultLength::kEverAfter});
    bool has_died = false;
    try {
      epoch_of(input(5).cache("/c", {.files = 2, .file_system = dying}));
    } catch (const Error&) {
      has_died = true;
    }
    disk->drop_unsynced();
    *made_ = 0;
    EXPECT_EQ(epoch_of(input(5).cache("/c", {.files = 2, .file_system = disk})),
              epoch_of(range(5).shuffle(4)))
        << operations;
    EXPECT_TRUE(*made_ == 5 || *made_ == 0) << "whole or not at all";
    if (!has_died) break;
    ASSERT_LT(operations, 100U);
  }
}

TEST_F(FileCache, AFullDiskFailsTheElementAndIterationContinuesWithoutWriting) {
  const auto full = std::make_shared<io::FaultyFileSystem>(files_);
  const auto dataset = input(5).cache("/cache/a", {.file_system = full});
  full->inject({.after = 5});
  auto iterator = dataset.iterator();
  ErrorCode code = ErrorCode::kInternal;
  Numbers seen;
  for (int call = 0; call < 7; ++call) {
    try {
      if (auto element = iterator.next()) seen.push_back(*element);
    } catch (const Error& error) {
      code = error.code();
    }
  }
  EXPECT_EQ(code, ErrorCode::kResourceExhausted);
  EXPECT_GE(seen.size(), 4U);
  EXPECT_EQ(names(), std::vector<std::string>());
  iterator.start_next_epoch();
  EXPECT_EQ(rest_of(iterator).size(), 5U);
  EXPECT_EQ(names(), (std::vector<std::string>{"a"}));
}

TEST_F(FileCache, OfTwoWritersBothContinueAndOneWins) {
  auto a = cached(input(6)).iterator();
  auto b = cached(input(6)).iterator();
  const Numbers expected = epoch_of(range(6).shuffle(4));
  Numbers seen_a;
  Numbers seen_b;
  for (int i = 0; i < 7; ++i) {
    if (auto element = a.next()) seen_a.push_back(*element);
    if (auto element = b.next()) seen_b.push_back(*element);
  }
  EXPECT_EQ(seen_a, expected);
  EXPECT_EQ(seen_b, expected);
  a = range(1).iterator();
  b = range(1).iterator();
  EXPECT_EQ(names(), (std::vector<std::string>{"a"}));
  EXPECT_EQ(epoch_of(cached(input(6))), expected);
}

TEST_F(FileCache, AnotherPipelineOrTypeIsRefused) {
  epoch_of(cached(range(6).batch(2)));
  const auto other = error_of([&] { cached(range(6).batch(3)).iterator(); });
  EXPECT_EQ(other.code(), ErrorCode::kFailedPrecondition);
  for (const char* part :
       {"range(6) | batch(2)", "step 2 is batch(2) there and batch(3) here", "Delete /cache/a "}) {
    EXPECT_NE(std::string(other.what()).find(part), std::string::npos) << other.what();
  }
  const auto type = error_of([&] { cached(range(6)).iterator(); });
  EXPECT_EQ(type.code(), ErrorCode::kFailedPrecondition);
  EXPECT_NE(std::string(type.what()).find("type vector<i64>, not i64"), std::string::npos);
}

TEST_F(FileCache, AnIteratorWithAnotherSeedReadsItsInput) {
  catch_warnings();
  epoch_of(cached(input(20)), {.seed = 1});
  const auto dataset = cached(input(20));
  for (int pass = 0; pass < 2; ++pass) {
    EXPECT_EQ(epoch_of(dataset, {.seed = 2}), epoch_of(input(20), {.seed = 2}));
  }
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_NE(warnings_[0].find("of the seed 1, and this iterator has the seed 2"),
            std::string::npos);
}

TEST_F(FileCache, ShardsHaveSeparateFolders) {
  const auto files = from_files<std::int64_t>({"1", "2"}, [](const io::Path& path) {
    return range(3).map([path](std::int64_t x) { return x + (path == "1" ? 10 : 20); });
  });
  for (int pass = 0; pass < 2; ++pass) {
    EXPECT_EQ(epoch_of(cached(files), {.shard = {.count = 2, .index = 0}}), (Numbers{10, 11, 12}));
    EXPECT_EQ(epoch_of(cached(files), {.shard = {.count = 2, .index = 1}}), (Numbers{20, 21, 22}));
  }
  EXPECT_EQ(names().size(), 2U);
}

TEST_F(FileCache, AnElementThatFailsIsNotCached) {
  catch_warnings();
  const auto passes = std::make_shared<std::atomic<int>>(0);
  const auto dataset = cached(range(3).map([passes](std::int64_t x) {
    if (x == 1 && ++*passes == 1) throw Error(ErrorCode::kUnavailable, "one is away");
    return x;
  }));
  auto iterator = dataset.iterator();
  EXPECT_EQ(iterator.next(), 0);
  EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kUnavailable);
  EXPECT_EQ(rest_of(iterator), (Numbers{2}));
  EXPECT_EQ(names(), std::vector<std::string>());
  EXPECT_EQ(warnings_.size(), 1U);
  EXPECT_EQ(epoch_of(dataset), (Numbers{0, 1, 2}));
  EXPECT_EQ(names(), (std::vector<std::string>{"a"}));
}

/// Changes one byte of a file.
void break_byte(io::FileSystem& files, const io::Path& path, std::size_t at) {
  std::string bytes = files.read(path);
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  const auto file = files.create(path, io::CreateMode::kTruncate);
  file->write(io::as_bytes(bytes));
  file->close();
}

TEST_F(FileCache, ACorruptElementFailsAloneAndItsErrorNamesIt) {
  epoch_of(cached(range(5)));
  break_byte(*files_, "/cache/a/elements-00000-of-00001.records", 2 * 24 + 13);
  auto iterator = cached(range(5)).iterator();
  Numbers seen;
  std::string why;
  for (int call = 0; call < 5; ++call) {
    try {
      seen.push_back(*iterator.next());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
      why = error.what();
    }
  }
  EXPECT_EQ(seen, (Numbers{0, 1, 3, 4}));
  EXPECT_NE(why.find("Element 2 in /cache/a: "), std::string::npos) << why;
}

TEST_F(FileCache, ABrokenIndexOrTableIsRefused) {
  epoch_of(cached(range(5)));
  for (const char* name : {"index.json", "elements-00000-of-00001.offsets"}) {
    break_byte(*files_, io::Path("/cache/a") / name, 9);
    const Error error = error_of([&] { cached(range(5)).iterator(); });
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    break_byte(*files_, io::Path("/cache/a") / name, 9);
  }
}

TEST_F(FileCache, RefusesWhatCannotWork) {
  expect_invalid_argument([&] { cached(range(3).repeat()); }, "put repeat after it");
  expect_invalid_argument([&] { cached(range(3), ""); }, "the path is empty");
  expect_invalid_argument([&] { range(3).snapshot("/s", {.files = 0}); }, "files is 0");
  expect_invalid_argument([&] { range(3).snapshot("/s", {.compression = io::Compression::kZlib}); },
                          "compression is zlib");
}

TEST_F(FileCache, WorksOnTheLocalDisk) {
  std::string folder_name = ::testing::TempDir() + "brigade_file_cache_XXXXXX";
  ASSERT_NE(::mkdtemp(folder_name.data()), nullptr);
  const io::Path folder = folder_name;
  const auto dataset = input(50).snapshot(folder / "s", {.compression = io::Compression::kGzip});
  EXPECT_EQ(epoch_of(dataset), epoch_of(dataset));
  EXPECT_EQ(*made_, 50);
  EXPECT_EQ(io::posix_file_system()->list(folder), (std::vector<std::string>{"s"}));
  std::filesystem::remove_all(folder);
}

TEST_F(FileCache, ThatCannotStartWritingFailsOneElementAndContinues) {
  const auto blocked = [&] { return cached(range(6), "/blocked/a"); };
  files_->create("/blocked", io::CreateMode::kTruncate)->close();
  auto iterator = blocked().iterator();
  EXPECT_THROW(iterator.next(), Error) << "instead of element 0";
  EXPECT_EQ(iterator.next(), 1);
  EXPECT_EQ(iterator.next(), 2);
  auto resumed = blocked().iterator();
  resumed.restore(iterator.save());
  EXPECT_EQ(rest_of(resumed), (Numbers{3, 4, 5}));
  EXPECT_EQ(blocked().node()->iterator({})->skip(100), 6U);
}

TEST_F(FileCache, SeveralFilesAreSkippedWithoutReadingAgain) {
  const auto dataset = range(30).snapshot("/cache/s", {.files = 4, .file_system = files_});
  epoch_of(dataset);
  const auto iterator = dataset.node()->iterator({});
  std::int64_t index = 0;
  for (const std::uint64_t count : {1, 0, 5, 2, 7, 3}) {
    EXPECT_EQ(iterator->skip(count), count);
    index += static_cast<std::int64_t>(count);
    EXPECT_EQ(iterator->next(), index++);
  }
  EXPECT_EQ(epoch_of(dataset.shard(7, 3)), (Numbers{3, 10, 17, 24}));
}

TEST_F(FileCache, ThatIsBrokenBetweenPassesFailsOnce) {
  auto iterator = cached(range(2)).repeat(2).iterator();
  iterator.next();
  iterator.next();
  files_->create("/cache/a/index.json", io::CreateMode::kTruncate)->close();
  EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kDataLoss);
  EXPECT_EQ(iterator.next(), std::nullopt);
}

}  // namespace
}  // namespace brigade::data
