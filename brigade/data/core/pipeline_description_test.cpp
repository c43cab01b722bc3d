#include "brigade/data/core/pipeline_description.h"

#include <gtest/gtest.h>

#include <functional>

#include "brigade/data/core/source.h"
#include "brigade/data/sources/files.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/data/testing/warnings.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the test helpers
using Numbers = std::vector<std::int64_t>;

std::int64_t same(std::int64_t x) {
  return x;
}

Dataset<std::int64_t> listed_files(std::vector<io::Path> paths) {
  return from_files<std::int64_t>(std::move(paths), [](const io::Path&) { return range(5); });
}

/// A position in `saved` cannot be restored into `other`, which does not move.
template <class T>
void expect_refused(const Dataset<T>& saved, const Dataset<T>& other, const std::string& names) {
  SCOPED_TRACE(other.describe());
  auto from = saved.iterator();
  from.next();
  const io::StateTree state = json_round_trip(from.save());
  auto into = other.iterator();
  expect_invalid_argument([&] { into.restore(state); }, names);
  EXPECT_EQ(rest_of(into), epoch_of(other));
}

/// A position in `saved` can be restored into `other`.
template <class T>
void expect_accepted(const Dataset<T>& saved, const Dataset<T>& other) {
  SCOPED_TRACE(other.describe());
  auto from = saved.iterator();
  from.next();
  auto into = other.iterator();
  into.restore(json_round_trip(from.save()));
  EXPECT_EQ(rest_of(into), rest_of(from));
}

TEST(PipelineDescription, AChangedParameterOfAnyTransformIsRefused) {
  const auto data = range(20);
  expect_refused(data, range(21), "step 1 is range(20) there and range(21) here");
  expect_refused(data.batch(3), data.batch(4), "step 2 is batch(3) there and batch(4) here");
  expect_refused(data.batch(3), data.batch(3, {.remainder = Remainder::kDrop}),
                 "batch(3, without remainder) here");
  expect_refused(data.shuffle(5), data.shuffle(6), "shuffle(5) there and shuffle(6) here");
  expect_refused(data.shuffle({.buffer_size = 5, .seed = 1}),
                 data.shuffle({.buffer_size = 5, .seed = 2}), "shuffle(5, seed 2) here");
  expect_refused(data.shuffle(5),
                 data.shuffle({.buffer_size = 5, .reshuffle_each_iteration = false}),
                 "shuffle(5, in each epoch alike) here");
  expect_refused(data.take(9), data.take(8), "step 2 is take(9) there and take(8) here");
  expect_refused(data.skip(3), data.skip(2), "skip(3) there and skip(2) here");
  expect_refused(data.repeat(2), data.repeat(3), "repeat(2) there and repeat(3) here");
  expect_refused(data.repeat(2), data.repeat(2).take(5), "step 3, take(5), was not there");
  expect_refused(data.repeat(2).take(5), data.repeat(2), "step 3, take(5), is missing here");
  expect_refused(data.shard(3, 0), data.shard(3, 1), "step 2 is shard(3, 0) there");
  expect_refused(data.shard_hint(), data, "shard_hint");
  expect_refused(data.map(same, {.name = "decode"}), data.map(same, {.name = "crop"}),
                 "step 2 is decode there and crop here");
  expect_refused(data.map(same, {.seed = 1}), data.map(same, {.seed = 2}), "map(seed 2) here");
  expect_refused(listed_files({"a/1", "a/2"}), listed_files({"a/1"}), "from_files");
  expect_refused(listed_files({"a/1", "a/2"}), listed_files({"a/2", "a/1"}), "from_files");
}

TEST(PipelineDescription, TheFirstDifferentStepIsNamedAndBothPipelinesAreShown) {
  expect_refused(range(20).shuffle(4).batch(3).take(2), range(20).shuffle(4).batch(5).take(1),
                 "The position was saved in range(20) | shuffle(4) | batch(3) | take(2), and this "
                 "pipeline is range(20) | shuffle(4) | batch(5) | take(1): step 3 is batch(3) "
                 "there and batch(5) here");
}

TEST(PipelineDescription, OptionsThatDoNotDecideElementsMayChange) {
  const auto data = range(20).shuffle(4);
  expect_accepted(data.prefetch(1), data.prefetch(7));
  expect_accepted(data.prefetch(3), data.prefetch(kAutotune));
  expect_accepted(data.map(same, {.parallelism = 1}), data.map(same, {.parallelism = 3}));
  expect_accepted(data.map(same, {.parallelism = kAutotune}), data.map(same));
  expect_accepted(listed_files({"here/a/1", "here/b/1"}),
                  listed_files({"/there/below/a/1", "/there/below/b/1"}));
}

TEST(PipelineDescription, StatesWithoutOneCanBeLoaded) {
  auto from = range(20).batch(3).iterator();
  from.next();
  io::StateTree::Dict older = from.save().as_dict();
  EXPECT_EQ(older.erase("recipe"), 1U);
  auto into = range(20).batch(3).iterator();
  into.restore(io::StateTree(older));
  EXPECT_EQ(into.next(), (Numbers{3, 4, 5}));
}

TEST(PipelineDescription, OtherLengthsCanBeAllowedWithAWarning) {
  auto from = range(20).repeat(1).batch(4).take(3).iterator();
  from.next();
  const io::StateTree state = from.save();
  auto longer = range(20).repeat(2).batch(2).take(5).iterator();
  const auto warnings = warnings_of([&] { longer.restore(state, PipelineMatch::kIgnoreLengths); });
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("step 2 is repeat(1) there and repeat(2) here"), std::string::npos);
  EXPECT_EQ(rest_of(longer), (std::vector<Numbers>{{4, 5}, {6, 7}, {8, 9}, {10, 11}}));
  for (const auto& other :
       {range(21).repeat(1).batch(4).take(3), range(20).repeat(1).batch(4),
        range(20).repeat(1).batch(4, {.remainder = Remainder::kDrop}).take(3)}) {
    auto into = other.iterator();
    expect_invalid_argument([&] { into.restore(state, PipelineMatch::kIgnoreLengths); }, "step ");
  }
}

TEST(PipelineDescription, NamesOfAnyBytesCanBeSaved) {
  const auto data = range(5).map(same, {.name = "d\xe9"
                                                "coder"});
  expect_accepted(data, data);
  EXPECT_EQ(save_pipeline_description(data.node()->pipeline()).as_string(1), "d\\xe9coder");
}

TEST(PipelineDescription, IsCheckedBeforeAnythingElse) {
  auto from = range(20).batch(3).iterator({.shard = {.count = 2, .index = 1}});
  expect_invalid_argument([&] { range(20).batch(4).iterator().restore(from.save()); }, "step 2");
}

}  // namespace
}  // namespace brigade::data
