#include "brigade/checkpoint/restore.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <string>

#include "brigade/base/log.h"
#include "brigade/checkpoint/saver.h"
#include "brigade/checkpoint/testing/sample.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/variables/variable_store.h"

namespace brigade::checkpoint {
namespace {

using testing::caught;
using variables::Aggregation;
using variables::StorageSharing;
using variables::Synchronization;
using variables::Variable;
using variables::VariableStore;

VariableStore store_of(int replicas, StorageSharing sharing = StorageSharing::kOneCopyEach) {
  return VariableStore(
      std::vector<c10::Device>(static_cast<std::size_t>(replicas), c10::Device(c10::kCPU)),
      sharing);
}

Variable weights(VariableStore& store, const std::string& name, double value,
                 at::IntArrayRef shape = {2, 3}) {
  return store.create({.name = name, .initial = at::full(shape, value, at::kFloat)});
}

Variable sum_on_read(VariableStore& store, const std::string& name, double value) {
  return store.create({.name = name,
                       .initial = at::full({}, value, at::kFloat),
                       .trainable = false,
                       .synchronization = Synchronization::kOnRead,
                       .aggregation = Aggregation::kSum});
}

double value_of(const Variable& variable) {
  return variable.read().reshape({-1})[0].item<double>();
}

std::vector<NamedTensor> stored(const std::vector<std::pair<std::string, double>>& values) {
  std::vector<NamedTensor> tensors;
  for (const auto& [name, value] : values) {
    tensors.push_back({name, at::full({2, 3}, value, at::kFloat)});
  }
  return tensors;
}

class RestoreTest : public ::testing::Test {
 protected:
  RestoreReport restore(const std::vector<NamedTensor>& tensors,
                        const std::vector<Variable>& variables,
                        const RestoreOptions& options = {}) {
    return restore_variables(tensors, "the file", variables, options);
  }
  VariableStore store_ = store_of(1, StorageSharing::kOneStorage);
};

TEST(Restore, LoadsIntoAnyNumberOfReplicas) {
  for (const int saving : {1, 2, 3}) {
    for (const int loading : {1, 2, 4}) {
      const auto files = std::make_shared<io::MemoryFileSystem>();
      VariableStore before = store_of(saving);
      const std::vector<Variable> saved = {weights(before, "w", 5), sum_on_read(before, "seen", 0)};
      for (int i = 0; i < saving; ++i) saved[1].component(i).fill_(10 + i);
      const double sum = value_of(saved[1]);
      Saver saver(files, {.directory = "/run"});
      saver.save(1, {.variables = saved});
      saver.close();
      VariableStore after = store_of(
          loading, loading == 2 ? StorageSharing::kOneStorage : StorageSharing::kOneCopyEach);
      const std::vector<Variable> loaded = {weights(after, "w", 0), sum_on_read(after, "seen", 0)};
      const auto report = restore_variables(Checkpoint::open(files, "/run/ckpt-1"), loaded);
      EXPECT_EQ(report.restored.size(), 2u);
      EXPECT_FLOAT_EQ(static_cast<float>(value_of(loaded[1])), static_cast<float>(sum));
      for (int i = 0; i < loading; ++i) {
        EXPECT_EQ(loaded[0].component(i).detach()[0][0].item<double>(), 5);
        EXPECT_FLOAT_EQ(loaded[1].component(i).item<float>(), static_cast<float>(sum / loading));
      }
    }
  }
}

TEST_F(RestoreTest, ReportsUnusedVariables) {
  const auto report = restore(stored({{"a", 1}, {"b", 2}}), {weights(store_, "a", 0)});
  ASSERT_EQ(report.restored.size(), 1u);
  EXPECT_EQ(report.restored[0].variable, "a");
  EXPECT_EQ(report.unused_in_checkpoint, (std::vector<std::string>{"b"}));
}

TEST_F(RestoreTest, AMissingVariableIsRefusedAndNothingIsChanged) {
  const std::vector<Variable> variables = {weights(store_, "a", 0), weights(store_, "x", 0)};
  const auto error = caught([&] { restore(stored({{"a", 1}}), variables); });
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
  EXPECT_NE(error.message.find("Checkpoint is missing variable [x]"), std::string::npos)
      << error.message;
  EXPECT_EQ(value_of(variables[0]), 0);
}

TEST_F(RestoreTest, AMissingVariableIsSkippedWithAWarning) {
  std::string log;
  base::set_log_sink([&](base::LogLevel, std::string_view message) { log += message; });
  const std::vector<Variable> variables = {weights(store_, "a", 0), weights(store_, "x", 7)};
  const auto report = restore(stored({{"a", 1}}), variables, {.missing = Missing::kSkip});
  base::set_log_sink({});
  EXPECT_EQ(report.missing_in_checkpoint, (std::vector<std::string>{"x"}));
  EXPECT_EQ(value_of(variables[0]), 1);
  EXPECT_EQ(value_of(variables[1]), 7);
  EXPECT_NE(log.find("[x]"), std::string::npos) << log;
}

TEST_F(RestoreTest, AnotherShapeOrDtypeIsRefusedNamingBoth) {
  const std::vector<Variable> variables = {weights(store_, "a", 0),
                                           weights(store_, "b", 0, {3, 2})};
  const auto shape = caught([&] { restore(stored({{"a", 1}, {"b", 1}}), variables); });
  EXPECT_EQ(shape.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(shape.message.find("[3, 2]"), std::string::npos) << shape.message;
  EXPECT_NE(shape.message.find("[2, 3]"), std::string::npos) << shape.message;
  EXPECT_EQ(value_of(variables[0]), 0);
  const std::vector<NamedTensor> doubles = {{"a", at::full({2, 3}, 1, at::kDouble)}};
  const auto dtype = caught([&] { restore(doubles, {variables[0]}); });
  EXPECT_EQ(dtype.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(dtype.message.find("Double"), std::string::npos) << dtype.message;
}

TEST_F(RestoreTest, ReshapesIfAsked) {
  const std::vector<Variable> variables = {weights(store_, "b", 0, {3, 2})};
  restore(stored({{"b", 4}}), variables, {.shapes = Shapes::kReshape});
  EXPECT_EQ(value_of(variables[0]), 4);
  const std::vector<NamedTensor> larger = {{"b", at::full({7}, 1, at::kFloat)}};
  EXPECT_EQ(caught([&] { restore(larger, variables, {.shapes = Shapes::kReshape}); }).code,
            ErrorCode::kInvalidArgument);
}

/// A variable "w" of 2 x 3, in two partitions of one row.
std::vector<Variable> rows_of_w(VariableStore& store, double value) {
  std::vector<Variable> parts;
  for (std::int64_t row = 0; row < 2; ++row) {
    const variables::VariableSlice slice{.whole = "net/w", .shape = {2, 3}, .offset = row};
    parts.push_back(store.create({.name = "net/w/part_" + std::to_string(row),
                                  .initial = at::full({1, 3}, value + static_cast<double>(row)),
                                  .slice = slice}));
  }
  return parts;
}

TEST_F(RestoreTest, PartitionsAreSavedAsTheWholeVariable) {
  VariableStore store = store_of(2);
  Contents contents;
  contents.variables = {weights(store, "a", 7.0)};
  for (const Variable& part : rows_of_w(store, 1.0)) contents.variables.push_back(part);
  contents.variables.push_back(weights(store, "z", 9.0));
  for (const SnapshotMemory memory : {SnapshotMemory::kOwn, SnapshotMemory::kShared}) {
    const Snapshot snapshot = take_snapshot(1, contents, memory);
    ASSERT_EQ(snapshot.variables.size(), 3u);
    EXPECT_EQ(snapshot.variables[0].name, "a");
    EXPECT_EQ(snapshot.variables[1].name, "net/w");
    EXPECT_EQ(snapshot.variables[2].name, "z");
    EXPECT_TRUE(snapshot.variables[1].tensor.equal(
        at::tensor({1.0F, 1.0F, 1.0F, 2.0F, 2.0F, 2.0F}).view({2, 3})));

    VariableStore whole = store_of(1);
    const Variable w = weights(whole, "net/w", 0.0);
    restore_variables(snapshot.variables, "the file", std::span(&w, 1));
    EXPECT_TRUE(w.read().equal(snapshot.variables[1].tensor));
  }
  contents.variables.erase(contents.variables.begin() + 1);
  const Snapshot part = take_snapshot(1, contents, SnapshotMemory::kOwn);
  EXPECT_EQ(part.variables[1].name, "net/w/part_1") << "a part without the others";
}

TEST_F(RestoreTest, PartitionsTakeTheirPartsOfTheWholeVariable) {
  VariableStore store = store_of(2);
  const std::vector<Variable> parts = rows_of_w(store, 0.0);
  const at::Tensor whole = at::tensor({1.0F, 1.0F, 1.0F, 2.0F, 2.0F, 2.0F}).view({2, 3});
  const RestoreReport report = restore({{"net/w", whole}}, parts);
  EXPECT_EQ(value_of(parts[0]), 1.0);
  EXPECT_EQ(value_of(parts[1]), 2.0);
  EXPECT_TRUE(parts[1].component(1).equal(parts[1].component(0)));
  EXPECT_TRUE(report.unused_in_checkpoint.empty());
  EXPECT_EQ(report.restored.at(1).stored, "net/w");

  restore({{"old/w", whole + 1}}, parts, {.renames = {Rename::prefix("net/", "old/")}});
  EXPECT_EQ(value_of(parts[1]), 3.0);
  restore({{"net/w/part_0", at::full({1, 3}, 5.0F)}, {"net/w/part_1", at::full({1, 3}, 6.0F)}},
          parts);
  EXPECT_EQ(value_of(parts[1]), 6.0) << "under their own names";

  const auto error = caught([&] { restore({{"net/w", at::full({3, 3}, 1.0F)}}, parts); });
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(error.message.find("[2, 3]"), std::string::npos) << error.message;
  EXPECT_NE(error.message.find("[3, 3]"), std::string::npos) << error.message;
  EXPECT_EQ(value_of(parts[0]), 5.0) << "unchanged";
}

TEST_F(RestoreTest, RestoresOnlyTheScopesThatAreGiven) {
  const std::vector<Variable> variables = {weights(store_, "net/conv1/w", 0),
                                           weights(store_, "net/conv10/w", 0),
                                           weights(store_, "net/fc.w", 0)};
  const auto tensors = stored({{"net/conv1/w", 1}, {"net/conv10/w", 2}, {"net/fc.w", 3}});
  restore(tensors, variables, {.include = {"net/conv1"}});
  EXPECT_EQ(value_of(variables[0]), 1);
  EXPECT_EQ(value_of(variables[1]), 0);
  restore(tensors, variables, {.include = {"net"}, .exclude = {"net/conv10/w"}});
  EXPECT_EQ(value_of(variables[1]), 0);
  EXPECT_EQ(value_of(variables[2]), 3);
  restore(tensors, {variables[1], variables[2]}, {.exclude = {"net/fc"}});
  EXPECT_EQ(value_of(variables[1]), 2);
}

TEST_F(RestoreTest, AnEmptyScopeIsRefused) {
  const std::vector<Variable> variables = {weights(store_, "conv1", 0)};
  const auto error = caught([&] { restore({}, variables, {.include = {"conv2"}}); });
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(error.message.find("did you mean 'conv1'"), std::string::npos) << error.message;
  EXPECT_EQ(caught([&] { restore({}, {}); }).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(caught([&] { restore({}, variables, {.exclude = {"conv1"}}); }).code,
            ErrorCode::kInvalidArgument);
}

TEST_F(RestoreTest, RenamesByTheFirstRuleThatFits) {
  const std::vector<Variable> variables = {
      weights(store_, "encoder/layer_0/w", 0), weights(store_, "encoder/layer_1/w", 0),
      weights(store_, "head/w", 0), weights(store_, "other", 0)};
  const auto tensors = stored({{"bert.0.w", 1}, {"bert.1.w", 2}, {"top/w", 3}, {"same", 4}});
  const auto report =
      restore(tensors, variables,
              {.renames = {Rename::pattern(R"(encoder/layer_(\d+)/(.*))", "bert.$1.$2"),
                           Rename::prefix("head/", "top/"), Rename::name("other", "same")}});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(value_of(variables[i]), i + 1);
  EXPECT_EQ(report.restored[0].stored, "bert.0.w");
  EXPECT_TRUE(report.unused_in_checkpoint.empty());
  EXPECT_EQ(caught([] { Rename::pattern("(", ""); }).code, ErrorCode::kInvalidArgument);
}

TEST_F(RestoreTest, AMissingRenamedVariableSaysWhereItLooked) {
  const auto error = caught([&] {
    restore(stored({{"a", 1}}), {weights(store_, "x", 0)}, {.renames = {Rename::name("x", "y")}});
  });
  EXPECT_NE(error.message.find("[x], stored as 'y'"), std::string::npos) << error.message;
}

// The weights of another architecture.
TEST_F(RestoreTest, OneErrorListsAllThatDoesNotFit) {
  const std::vector<Variable> variables = {weights(store_, "a", 0), weights(store_, "b", 0),
                                           weights(store_, "c", 0, {3, 2}),
                                           weights(store_, "d", 0, {4}), weights(store_, "e", 0)};
  const auto tensors = stored({{"a", 1}, {"c", 1}, {"d", 1}, {"x", 1}, {"y", 1}});
  const auto error = caught([&] { restore(tensors, variables); });
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  for (const char* part :
       {"Checkpoint is missing variables [b], [e]", "'c' is Float [3, 2] and 'c' is Float [2, 3]",
        "'d' is Float [4] and 'd' is Float [2, 3]", "it has 'x', 'y', which no variable uses",
        "(the file)"}) {
    EXPECT_NE(error.message.find(part), std::string::npos) << part << "\n" << error.message;
  }
  EXPECT_EQ(value_of(variables[0]), 0) << "nothing is assigned";

  const auto missing = caught([&] { restore(tensors, {variables[1], variables[4]}); });
  EXPECT_EQ(missing.code, ErrorCode::kNotFound);
  const auto shapes = caught([&] { restore(tensors, variables, {.missing = Missing::kSkip}); });
  EXPECT_EQ(shapes.code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(shapes.message.find("missing"), std::string::npos) << shapes.message;
}

TEST_F(RestoreTest, AnErrorAboutManyVariablesIsShort) {
  std::vector<Variable> variables;
  for (int i = 0; i < 500; ++i) {
    variables.push_back(weights(store_, "layer_" + std::to_string(i), 0));
  }
  const auto error = caught([&] { restore(stored({{"a", 1}}), variables); });
  EXPECT_NE(error.message.find("and 480 more"), std::string::npos) << error.message;
  EXPECT_LT(error.message.size(), 1000u);
}

TEST_F(RestoreTest, TensorFlowsLayoutIsConvertedByTheKindOfVariable) {
  const at::Tensor square = at::arange(9, at::kFloat).view({3, 3});
  const at::Tensor wide = at::arange(6, at::kFloat).view({2, 3});
  const std::vector<Variable> variables = {weights(store_, "fc/weights", 0, {3, 3}),
                                           weights(store_, "dense/kernel", 0, {3, 2}),
                                           weights(store_, "table", 0, {2, 3})};
  const std::vector<NamedTensor> tensors = {
      {"fc/weights", square},
      {"model/layer-1/kernel/.ATTRIBUTES/VARIABLE_VALUE", wide},
      {"table/.ATTRIBUTES/VARIABLE_VALUE", wide}};
  const auto report = restore(tensors, variables,
                              {.renames = {Rename::name("dense/kernel", "model/layer-1/kernel")},
                               .layout = WeightsLayout::kTensorFlow});
  EXPECT_TRUE(variables[0].read().equal(square.t()));
  EXPECT_TRUE(variables[1].read().equal(wide.t()));
  EXPECT_TRUE(variables[2].read().equal(wide));
  EXPECT_EQ(report.restored.at(2).stored, "table/.ATTRIBUTES/VARIABLE_VALUE");
  EXPECT_TRUE(report.unused_in_checkpoint.empty());

  restore({{"fc/weights", square}}, {variables[0]});
  EXPECT_TRUE(variables[0].read().equal(square)) << "other files are libtorch's";
}

TEST_F(RestoreTest, TensorFlowsLayoutIsConvertedBeforeItIsComparedReshapedOrDivided) {
  const at::Tensor wide = at::arange(6, at::kFloat).view({2, 3});
  const std::vector<NamedTensor> tensors = {{"fc/weights", wide}};
  const Variable like_theirs = weights(store_, "fc/weights", 0, {2, 3});
  const auto error =
      caught([&] { restore(tensors, {like_theirs}, {.layout = WeightsLayout::kTensorFlow}); });
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(error.message.find("is Float [3, 2] (TensorFlow's [2, 3])"), std::string::npos)
      << error.message;
  restore(tensors, {like_theirs},
          {.shapes = Shapes::kReshape, .layout = WeightsLayout::kTensorFlow});
  EXPECT_TRUE(like_theirs.read().equal(wide.t().reshape({2, 3})));

  VariableStore store = store_of(1);
  const std::vector<Variable> rows = rows_of_w(store, 0.0);
  restore(
      {{"net/w/kernel", wide.t().contiguous()}}, rows,
      {.renames = {Rename::name("net/w", "net/w/kernel")}, .layout = WeightsLayout::kTensorFlow});
  EXPECT_TRUE(rows[1].read().equal(wide.slice(0, 1)));
}

TEST_F(RestoreTest, AFlattenedImageIsNamedByItsVariable) {
  const at::Tensor stored_matrix = at::arange(24, at::kFloat).view({12, 2});
  const Variable fc = weights(store_, "fc/weights", 0, {2, 12});
  const FlattenedImage image{.channels = 3, .height = 2, .width = 2};
  restore({{"fc/weights", stored_matrix}}, {fc},
          {.layout = WeightsLayout::kTensorFlow, .flattened = {{"fc/weights", image}}});
  EXPECT_TRUE(fc.read().equal(to_torch_layout(stored_matrix, "fc/weights", "fc/weights", image)));
  EXPECT_FALSE(fc.read().equal(stored_matrix.t()));
  const auto error = caught([&] {
    restore({{"fc/weights", stored_matrix}}, {fc},
            {.layout = WeightsLayout::kTensorFlow, .flattened = {{"fc/weight", image}}});
  });
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(error.message.find("did you mean 'fc/weights'"), std::string::npos) << error.message;
}

}  // namespace
}  // namespace brigade::checkpoint
