#include "brigade/data/sources/files.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "brigade/data/core/source.h"
#include "brigade/data/sources/from_generator.h"
#include "brigade/data/testing/dataset_contract.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Numbers = std::vector<std::int64_t>;

/// Reads files that need not exist: their names say what is in them, "3..7" the numbers 3 to 6.
Dataset<std::int64_t> numbers_in(const io::Path& path) {
  const std::string name = path.filename().string();
  const std::int64_t first = std::stoll(name);
  const std::int64_t last = std::stoll(name.substr(name.find("..") + 2));
  return range(last - first).map([first](std::int64_t x) { return first + x; });
}

Dataset<std::int64_t> files(const std::vector<io::Path>& names) {
  return from_files<std::int64_t>(names, numbers_in);
}

/// Files of 1, 7, 0, 0 and 3 numbers.
const std::vector<io::Path> kUneven = {"0..1", "1..8", "8..8", "8..8 ", "8..11"};

IteratorOptions by_files(std::int64_t count, std::int64_t index) {
  return {.shard = {.by = ShardBy::kFiles, .count = count, .index = index}};
}

TEST(Files, KeepTheDatasetContract) {
  expect_contract(files(kUneven), {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, Length::kUnknown);
  expect_contract(files({"0..0"}), {}, Length::kUnknown);
  expect_contract(files({"0..0", "5..7", "0..0"}), {5, 6}, Length::kUnknown);
}

TEST(Files, KeepTheDatasetContractUnderOtherTransforms) {
  const auto dataset = files(kUneven).shuffle(4).repeat(2).batch(3).prefetch(2);
  expect_contract(dataset, epoch_of(dataset), Length::kUnknown);
  const auto inside = from_files<std::int64_t>(
      kUneven, [](const io::Path& path) { return numbers_in(path).shuffle(5).prefetch(2); });
  expect_contract(inside, epoch_of(inside), Length::kUnknown);
}

TEST(Files, FileIBelongsToShardIModCount) {
  const std::vector<io::Path> names = {"0..2", "2..3", "3..3", "3..6", "6..7"};
  EXPECT_EQ(epoch_of(files(names), by_files(2, 0)), (Numbers{0, 1, 6}));
  EXPECT_EQ(epoch_of(files(names), by_files(2, 1)), (Numbers{2, 3, 4, 5}));
  EXPECT_EQ(epoch_of(files(names), by_files(5, 2)), Numbers());
  EXPECT_EQ(epoch_of(files(names), by_files(7, 6)), Numbers()) << "more shards than files";
  EXPECT_EQ(epoch_of(files(names), {.shard = {.by = ShardBy::kHint, .count = 2, .index = 1}}),
            epoch_of(files(names)));
}

TEST(Files, AShardResumesAtASavedPosition) {
  const auto dataset = files(kUneven).shuffle(2).repeat(2);
  for (std::int64_t index = 0; index < 3; ++index) {
    const Numbers elements = epoch_of(dataset, by_files(3, index));
    auto iterator = dataset.iterator(by_files(3, index));
    for (std::size_t position = 0; position <= elements.size(); ++position) {
      auto again = dataset.iterator(by_files(3, index));
      again.restore(json_round_trip(iterator.save()));
      EXPECT_EQ(rest_of(again), elements_from(elements, position)) << index << ", " << position;
      iterator.next();
    }
  }
}

TEST(Files, EachFileHasADifferentSeed) {
  const auto dataset =
      from_files<std::int64_t>({"a", "b"}, [](const io::Path&) { return range(20).shuffle(20); });
  const Numbers both = epoch_of(dataset);
  EXPECT_NE(Numbers(both.begin(), both.begin() + 20), elements_from(both, 20));
}

TEST(Files, AreOpenedWhenTheyAreReached) {
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("brigade-files-test-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "a.txt") << "one\ntwo\n";
  std::ofstream(folder / "b.txt") << "";
  const auto lines = [](const io::Path& path) {
    std::ifstream file(path);
    if (!file) throw Error(ErrorCode::kNotFound, "there is no such file");
    std::vector<std::string> all;
    for (std::string line; std::getline(file, line);) all.push_back(line);
    return from_elements(all);
  };
  const auto dataset =
      from_files<std::string>({folder / "a.txt", folder / "b.txt", folder / "c.txt"}, lines);
  auto iterator = dataset.iterator();
  EXPECT_EQ(iterator.next(), "one");
  std::ofstream(folder / "c.txt") << "three\n";
  EXPECT_EQ(rest_of(iterator), (std::vector<std::string>{"two", "three"}));
  std::filesystem::remove_all(folder);
}

Dataset<int> one_cannot_be_opened() {
  return from_files<int>({"good/a", "bad/b", "good/c"}, [](const io::Path& path) {
    if (path == "bad/b") throw Error(ErrorCode::kNotFound, "it is not there");
    return from_elements<int>({1, 2});
  });
}

TEST(Files, OneThatCannotBeOpenedIsOneElementThatFails) {
  auto iterator = one_cannot_be_opened().iterator();
  EXPECT_EQ(iterator.next(), 1);
  EXPECT_EQ(iterator.next(), 2);
  const Error error = error_of([&] { iterator.next(); });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_STREQ(error.what(), "In the file bad/b: it is not there");
  EXPECT_EQ(rest_of(iterator), (std::vector<int>{1, 2}));
  EXPECT_EQ(one_cannot_be_opened().node()->iterator({})->skip(99), 5U);
  auto rest = one_cannot_be_opened().skip(3).iterator();
  EXPECT_EQ(rest_of(rest), (std::vector<int>{1, 2}));
}

TEST(Files, AnElementThatFailsNamesItsFile) {
  const auto dataset = from_files<std::int64_t>({"x/data"}, [](const io::Path&) {
    return range(3).map([](std::int64_t x) {
      if (x == 1) throw std::runtime_error("one is broken");
      return x;
    });
  });
  auto iterator = dataset.iterator();
  EXPECT_EQ(iterator.next(), 0);
  const Error error = error_of([&] { iterator.next(); });
  EXPECT_EQ(error.code(), ErrorCode::kAborted);
  EXPECT_NE(std::string(error.what()).find("x/data"), std::string::npos) << error.what();
  EXPECT_EQ(iterator.next(), 2);
  EXPECT_EQ(iterator.next(), std::nullopt);
}

TEST(Files, RefuseAnEmptyList) {
  expect_invalid_argument([] { files({}); }, "the list of files is empty");
}

TEST(Files, RefuseAPositionInOtherFiles) {
  auto iterator = files({"f/0..1", "f/1..2", "f/2..3"}).iterator();
  iterator.next();
  const io::StateTree state = iterator.save();
  expect_invalid_argument(
      [&] {
        files({"f/0..1", "f/1..2"}).node()->iterator({})->restore(state.at("position"));
      },
      "a list of 3 files");
  expect_invalid_argument(
      [&] {
        files({"f/1..2", "f/0..1", "f/2..3"}).node()->iterator({})->restore(state.at("position"));
      },
      "another order");
  auto moved = files({"/other/place/0..1", "/other/place/1..2", "/other/place/2..3"}).iterator();
  moved.restore(state);
  EXPECT_EQ(rest_of(moved), (Numbers{1, 2})) << "another folder is no other list";
}

TEST(Files, AreTheSameListByNamesAndOrderBelowTheirFolder) {
  const auto list = [](const std::vector<io::Path>& names) {
    return files(names).sharding().file_list_hash;
  };
  EXPECT_EQ(list({"a/x/1..1", "a/y/1..1"}), list({"/b/c/x/1..1", "/b/c/y/1..1"}));
  EXPECT_NE(list({"a/x/1..1", "a/y/1..1"}), list({"a/y/1..1", "a/x/1..1"}));
  EXPECT_NE(list({"1..1"}), list({"2..2"}));
  EXPECT_EQ(list({"1..1"}), list({"a/1..1"}));
}

TEST(Files, DescribeThemselves) {
  EXPECT_EQ(files({"a/0..1"}).batch(2).describe(), "from_files(a/0..1) | batch(2)");
  EXPECT_EQ(files(kUneven).describe(), "from_files(0..1 and 4 more)");
}

TEST(Files, KeepTheOrderWithinAFile) {
  std::optional<Order> seen;
  const auto records_order = [&](const IteratorOptions& options) {
    seen = options.order;
    return [] { return std::optional<std::int64_t>(); };
  };
  const auto dataset = from_files<std::int64_t>(
      {"a"}, [&](const io::Path&) { return from_generator<std::int64_t>(records_order); });
  EXPECT_EQ(dataset.node()->order({.order = Order::kRelaxed}), Order::kInOrder);
  epoch_of(dataset, {.order = Order::kRelaxed});
  EXPECT_EQ(seen, Order::kInOrder);
}

}  // namespace
}  // namespace brigade::data
