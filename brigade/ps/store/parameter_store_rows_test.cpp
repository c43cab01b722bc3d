#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/optim/adagrad.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/lars.h"
#include "brigade/optim/sgd.h"
#include "brigade/ps/parameter_service.h"
#include "brigade/ps/store/parameter_store.h"
#include "brigade/ps/store/store_records.h"
#include "brigade/ps/store/store_snapshot.h"
#include "brigade/ps/testing/store_samples.h"

namespace brigade::ps {
namespace {

using coordination::PushVerdict;
using testing::soon;

const std::vector<std::string> kTable = {"table"};

at::Tensor rows_numbered(std::vector<std::int64_t> indices) {
  return at::tensor(indices, at::kLong);
}

/// A table of 7 rows of 3, and a bias.
std::unique_ptr<ParameterStore> table_store(std::shared_ptr<io::FileSystem> files,
                                            const optim::UpdateRulePtr& rule,
                                            const io::StateTree& job = testing::async_job()) {
  auto store = std::make_unique<ParameterStore>(std::move(files), testing::store_options());
  const std::vector<Creation> variables = {
      {.name = "table", .value = at::arange(21, at::kFloat).view({7, 3})},
      {.name = "bias", .value = at::zeros({2}, at::kFloat)},
      {.name = "count", .value = at::zeros({2}, at::kLong), .is_trainable = false}};
  store->create(variables, rule, job, soon());
  return store;
}

RowGradient table_rows(std::vector<std::int64_t> indices, double value) {
  const auto count = static_cast<std::int64_t>(indices.size());
  return {.name = "table",
          .indices = rows_numbered(std::move(indices)),
          .values = at::full({count, 3}, value, at::kFloat)};
}

PushVerdict push_rows(ParameterStore& store, std::int64_t number,
                      const std::vector<RowGradient>& rows,
                      const testing::Gradients& gradients = {}) {
  return store.push({.worker = 0, .incarnation = 0, .number = number}, gradients, rows, soon());
}

PushVerdict offer_rows(ParameterStore& store, int worker, std::int64_t step,
                       const std::vector<RowGradient>& rows,
                       const testing::Gradients& gradients = {}) {
  return store.offer({.worker = worker, .incarnation = 0, .number = step + 1}, step, 0, gradients,
                     rows, soon());
}

at::Tensor table_of(const ParameterStore& store) {
  return testing::value_of(store, "table");
}

TEST(ParameterStoreRows, APushChangesItsRowsAlone) {
  const auto store =
      table_store(std::make_shared<io::MemoryFileSystem>(), optim::Sgd{.learning_rate = 1}.rule());
  const at::Tensor before = table_of(*store);
  EXPECT_EQ(push_rows(*store, 1, {table_rows({1, 6}, 2)}, {{"bias", at::ones({2})}}),
            PushVerdict::kApply);
  const at::Tensor after = table_of(*store);
  EXPECT_TRUE(at::equal(after[1], before[1] - 2));
  EXPECT_TRUE(at::equal(after[6], before[6] - 2));
  EXPECT_TRUE(at::equal(after[5], before[5]));
  EXPECT_EQ(testing::value_of(*store, "bias")[0].item<float>(), -1);
  EXPECT_EQ(store->states(kTable).variables.front().state.updates, 1);
  EXPECT_EQ(store->step(), 1);
  EXPECT_EQ(push_rows(*store, 1, {table_rows({1, 6}, 2)}), PushVerdict::kDuplicate);
  EXPECT_TRUE(at::equal(table_of(*store), after));
}

TEST(ParameterStoreRows, HaveTheBitsOfADensePush) {
  for (const optim::UpdateRulePtr& rule :
       {optim::Sgd{.learning_rate = 0.3}.rule(), optim::Adagrad{}.rule()}) {
    const auto sparse = table_store(std::make_shared<io::MemoryFileSystem>(), rule);
    const auto dense = table_store(std::make_shared<io::MemoryFileSystem>(), rule);
    for (std::int64_t number = 1; number <= 5; ++number) {
      const at::Tensor indices = rows_numbered({number % 5, 5, 6});
      const at::Tensor values = at::rand({3, 3});
      const at::Tensor whole = at::zeros({7, 3});
      whole.index_copy_(0, indices, values);
      push_rows(*sparse, number, {{.name = "table", .indices = indices, .values = values}});
      dense->push({.worker = 0, .incarnation = 0, .number = number},
                  testing::Gradients{{"table", whole}}, soon());
    }
    testing::expect_same_state(*sparse, *dense);
  }
}

TEST(ParameterStoreRows, AreTheSameAfterARestartFromTheLog) {
  for (const optim::UpdateRulePtr& rule :
       {optim::Adam{}.rule(), optim::Adagrad{}.rule(),
        optim::Sgd{.momentum = 0.9, .weight_decay = 0.1}.rule()}) {
    const auto files = std::make_shared<io::MemoryFileSystem>();
    const auto other_files = std::make_shared<io::MemoryFileSystem>();
    auto restarted = table_store(files, rule);
    const auto expected = table_store(other_files, rule);
    for (std::int64_t number = 1; number <= 6; ++number) {
      const RowGradient rows{.name = "table",
                             .indices = rows_numbered({number % 3, 4, 6}),
                             .values = at::rand({3, 3})};
      push_rows(*restarted, number, {rows}, {{"bias", at::ones({2})}});
      push_rows(*expected, number, {rows}, {{"bias", at::ones({2})}});
      if (number == 3) restarted->snapshot();
      restarted.reset();
      restarted = std::make_unique<ParameterStore>(files, testing::store_options());
      testing::expect_same_state(*restarted, *expected);
    }
  }
}

ErrorCode row_refusal(ParameterStore& store, const std::vector<RowGradient>& rows,
                      const testing::Gradients& gradients = {}) {
  try {
    push_rows(store, 1, rows, gradients);
  } catch (const PushRefusedError& error) {
    return error.code();
  }
  return ErrorCode::kInternal;
}

TEST(ParameterStoreRows, WhatDoesNotFitIsRefusedBeforeAnythingIsChanged) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  auto store = table_store(files, optim::Sgd{.learning_rate = 1}.rule());
  const at::Tensor before = table_of(*store);
  const testing::Gradients good = {{"bias", at::ones({2})}};
  const std::vector<RowGradient> good_rows = {table_rows({1}, 1)};
  const ErrorCode invalid = ErrorCode::kInvalidArgument;
  EXPECT_EQ(row_refusal(*store, {table_rows({7}, 1)}, good), invalid);
  EXPECT_EQ(row_refusal(*store, {table_rows({-1}, 1)}, good), invalid);
  EXPECT_EQ(row_refusal(*store, {table_rows({2, 1}, 1)}, good), invalid);
  EXPECT_EQ(row_refusal(*store, {table_rows({1, 1}, 1)}, good), invalid);
  EXPECT_EQ(row_refusal(*store, {good_rows[0], good_rows[0]}, good), invalid) << "twice";
  EXPECT_EQ(row_refusal(*store, good_rows, {{"table", at::ones({7, 3})}}), invalid) << "both";
  EXPECT_EQ(row_refusal(*store, {{"count", rows_numbered({0}), at::ones({1}, at::kLong)}}, good),
            invalid)
      << "not trainable";
  EXPECT_EQ(row_refusal(*store, {{"other", rows_numbered({0}), at::ones({1, 3})}}, good),
            ErrorCode::kNotFound);
  store.reset();
  store = std::make_unique<ParameterStore>(files, testing::store_options());
  EXPECT_TRUE(at::equal(table_of(*store), before));
  EXPECT_EQ(testing::value_of(*store, "bias")[0].item<float>(), 0);
  EXPECT_EQ(store->step(), 0);
  EXPECT_EQ(push_rows(*store, 1, good_rows, good), PushVerdict::kApply) << "the number is free";
}

TEST(ParameterStoreRows, AreRefusedByRulesThatNeedWholeVariables) {
  const auto store = table_store(std::make_shared<io::MemoryFileSystem>(), optim::Lars{}.rule());
  EXPECT_EQ(row_refusal(*store, {table_rows({1}, 1)}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(store->step(), 0);
}

TEST(ParameterStoreRows, AreReadAtOneMomentWithWholeVariables) {
  const auto store =
      table_store(std::make_shared<io::MemoryFileSystem>(), optim::Sgd{.learning_rate = 1}.rule());
  const std::vector<std::string> names = {"bias", "table"};
  const std::vector<RowQuery> queries = {{.name = "table", .indices = rows_numbered({6, 0, 6})}};
  const ParameterStore::Pulled pulled = store->pull(names, queries);
  ASSERT_EQ(pulled.values.size(), 2u);
  ASSERT_EQ(pulled.rows.size(), 1u);
  EXPECT_TRUE(
      at::equal(pulled.rows[0], pulled.values[1].value.index_select(0, queries[0].indices)));
  const std::vector<RowQuery> twice = {queries[0], queries[0]};
  EXPECT_THROW(store->pull(names, twice), Error);
  EXPECT_THROW(store->pull({}, std::vector<RowQuery>{{"table", rows_numbered({7})}}), Error);
  EXPECT_THROW(store->pull({}, std::vector<RowQuery>{{"other", rows_numbered({0})}}), Error);
  EXPECT_EQ(push_rows(*store, 1, {table_rows({0}, 1)}), PushVerdict::kApply) << "it serves on";
}

TEST(ParameterStoreRows, AReadIsBoundedInBytesHoweverOftenARowIsNamed) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  table_store(files, optim::Sgd{}.rule());
  ParameterStoreOptions options = testing::store_options();
  options.max_read_bytes = 100;  // 8 rows of 12 bytes
  const ParameterStore store(files, options);
  EXPECT_EQ(
      store.pull({}, std::vector<RowQuery>{{"table", at::zeros({8}, at::kLong)}}).rows[0].size(0),
      8);
  EXPECT_THROW(store.pull({}, std::vector<RowQuery>{{"table", at::zeros({9}, at::kLong)}}), Error);
}

TEST(ParameterStoreRows, AStepAddsTheRowsOfItsWorkersInTheirOrder) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  const io::StateTree job = testing::sync_job(2, 3);
  auto store = table_store(files, optim::Sgd{.learning_rate = 1}.rule(), job);
  const at::Tensor before = table_of(*store);
  offer_rows(*store, 1, 0, {table_rows({2, 5}, 1)});
  offer_rows(*store, 0, 0, {table_rows({0, 5}, 2)}, {{"bias", at::ones({2})}});
  offer_rows(*store, 2, 0, {table_rows({4}, 9)});  // not in the decision
  store->snapshot();
  store.reset();
  store = std::make_unique<ParameterStore>(files, testing::store_options());  // from the snapshot
  offer_rows(*store, 1, 1, {table_rows({1}, 7)});
  store.reset();
  store = std::make_unique<ParameterStore>(files, testing::store_options());  // from the log
  store->apply({.step = 0, .contributions = {{0, 0}, {1, 0}}}, soon());
  at::Tensor expected = before.clone();
  expected[0] -= 2;
  expected[2] -= 1;
  expected[5] -= 3;
  EXPECT_TRUE(at::equal(table_of(*store), expected));
  EXPECT_EQ(testing::value_of(*store, "bias")[0].item<float>(), -1);
  EXPECT_EQ(store->offer_state(1, {.worker = 1, .index = 0}), ParameterStore::OfferState::kKept);
  EXPECT_EQ(store->offer_state(1, {.worker = 1, .index = 1}), ParameterStore::OfferState::kMissing);
  EXPECT_EQ(store->offer_state(0, {.worker = 1, .index = 1}), ParameterStore::OfferState::kDecided);
  store.reset();
  store = std::make_unique<ParameterStore>(files, testing::store_options());
  EXPECT_TRUE(at::equal(table_of(*store), expected)) << "the decision again, from the log";
}

TEST(ParameterStoreRows, AStepMayAddRowsToAWholeGradient) {
  const auto store = table_store(std::make_shared<io::MemoryFileSystem>(),
                                 optim::Sgd{.learning_rate = 1}.rule(), testing::sync_job(2, 2));
  const at::Tensor before = table_of(*store);
  offer_rows(*store, 0, 0, {table_rows({3}, 2)});
  offer_rows(*store, 1, 0, {}, {{"table", at::ones({7, 3})}});
  store->apply({.step = 0, .contributions = {{0, 0}, {1, 0}}}, soon());
  at::Tensor expected = before - 1;
  expected[3] -= 2;
  EXPECT_TRUE(at::equal(table_of(*store), expected));
}

/// So servers read the logs and snapshots of earlier versions, and those read ours.
TEST(ParameterStoreRows, WithoutThemRecordsAndSnapshotsAreThoseOfEarlierVersions) {
  const coordination::PushId id = {.worker = 0, .incarnation = 1, .number = 1};
  const testing::Gradients gradients = {{"bias", at::ones({2})}};
  for (const UpdateRecord& record :
       {push_record(id, gradients), offer_record(id, 3, 0, gradients)}) {
    const std::string& kind = record.header.as_string("kind");
    EXPECT_TRUE(kind == "push" || kind == "offer") << kind;
    EXPECT_FALSE(record.header.has("rows"));
    EXPECT_EQ(recorded_gradients(record).dense.size(), 1u);
    EXPECT_TRUE(recorded_gradients(record).rows.empty());
  }
  StoreState state;
  state.rule = optim::Sgd{}.rule();
  state.offers.put(
      {.step = 3,
       .from = {.worker = 0, .index = 0},
       .gradients = std::make_shared<const std::vector<checkpoint::NamedTensor>>(gradients)});
  const checkpoint::Contents contents = snapshot_contents(state, {});
  ASSERT_EQ(contents.state.as_list("offers").size(), 1u);
  EXPECT_FALSE(contents.state.as_list("offers").front().has("rows"));
}

TEST(ParameterStoreRows, ARecordThatLacksTheirTensorsIsDamaged) {
  const std::vector<RowGradient> rows = {table_rows({1}, 1)};
  UpdateRecord record = push_record({.worker = 0, .incarnation = 1, .number = 1}, {}, rows);
  EXPECT_EQ(record.header.as_string("kind"), "push_rows") << "which earlier versions refuse";
  ASSERT_EQ(recorded_gradients(record).rows.size(), 1u);
  EXPECT_TRUE(at::equal(recorded_gradients(record).rows[0].indices, rows[0].indices));
  for (const std::uint64_t count : {std::uint64_t{2}, std::uint64_t{1} << 63}) {
    record.header["rows"] = count;
    EXPECT_THROW(recorded_gradients(record), Error) << count;
  }
}

}  // namespace
}  // namespace brigade::ps
