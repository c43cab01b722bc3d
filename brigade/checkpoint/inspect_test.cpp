#include "brigade/checkpoint/inspect.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "brigade/checkpoint/safetensors.h"
#include "brigade/checkpoint/saver.h"
#include "brigade/checkpoint/testing/sample.h"
#include "brigade/io/testing/memory_file_system.h"

namespace brigade::checkpoint {
namespace {

using testing::caught;
using testing::sample;

class InspectTest : public ::testing::Test {
 protected:
  void save(const io::Path& directory, std::int64_t step, const Contents& contents) {
    Saver saver(files_, {.directory = directory, .writing = Writing::kForeground});
    saver.save(step, contents);
  }
  void save(const io::Path& path, const std::vector<NamedTensor>& tensors) {
    save_safetensors(*files_, path, tensors);
  }
  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
};

TEST_F(InspectTest, ShowsACheckpoint) {
  save("/run", 3, sample(3));
  for (const io::Path path : {"/run", "/run/ckpt-3"}) {
    const Inspection seen = inspect(files_, path);
    EXPECT_EQ(seen.path, "/run/ckpt-3");
    EXPECT_EQ(seen.format, "checkpoint");
    EXPECT_EQ(seen.step, 3);
    EXPECT_EQ(seen.metrics, sample(3).metrics);
    ASSERT_EQ(seen.tensors.size(), 4u);
    EXPECT_EQ(seen.tensors[0].name, "conv1/weights/adam/m");
    EXPECT_EQ(seen.tensors[0].dtype, "float32");
    EXPECT_EQ(seen.tensors[0].shape, (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(seen.tensors[0].bytes, 24u);
    EXPECT_EQ(seen.tensors[3].section, Section::kState);
  }
}

TEST_F(InspectTest, ShowsABareFile) {
  save("/w.safetensors", {{"a", at::full({2}, 1, at::kHalf)}});
  const Inspection seen = inspect(files_, "/w.safetensors");
  EXPECT_EQ(seen.format, "safetensors");
  EXPECT_EQ(seen.step, std::nullopt);
  EXPECT_EQ(seen.tensors.at(0).dtype, "float16");
  EXPECT_EQ(seen.bytes, files_->read("/w.safetensors").size());
}

TEST_F(InspectTest, ShowsACheckpointOfTensorFlow) {
  const io::Path prefix = io::Path(BRIGADE_CHECKPOINT_TEST_DATA) / "tf/objects";
  for (const char* suffix : {"", ".index"}) {
    const Inspection seen = inspect(io::posix_file_system(), io::Path(prefix) += suffix);
    EXPECT_EQ(seen.format, "tensorflow");
    EXPECT_EQ(seen.bytes, 674U + 1817U);
    ASSERT_EQ(seen.tensors.size(), 9u);
    EXPECT_EQ(seen.tensors[1].name, "model/layer_with_weights-0/kernel/.ATTRIBUTES/VARIABLE_VALUE");
    EXPECT_EQ(seen.tensors[1].shape, (std::vector<std::int64_t>{3, 3, 3, 2}));
    EXPECT_EQ(seen.left_out, std::vector<std::string>{"_CHECKPOINTABLE_OBJECT_GRAPH"});
  }
  EXPECT_TRUE(compare(io::posix_file_system(), prefix, prefix).is_equal());
}

TEST_F(InspectTest, RefusesWeightsThatDoNotMatchTheHashUnlessAllowed) {
  const std::vector<NamedTensor> tensors = {{"a", at::full({2}, 1, at::kFloat)}};
  const std::vector<NamedTensor> others = {{"a", at::full({2}, 2, at::kFloat)}};
  const std::string hash = weights_sha256(tensors);
  save_safetensors(*files_, "/whole", tensors, {{std::string(kWeightsHashKey), hash}});
  save_safetensors(*files_, "/altered", others, {{std::string(kWeightsHashKey), hash}});
  EXPECT_EQ(inspect(files_, "/whole").tensors.size(), 1u);
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { inspect(files_, "/altered"); }, [&] { compare(files_, "/whole", "/altered"); },
           [&] { read_weights(*files_, "/altered"); }}) {
    const auto error = caught(call);
    EXPECT_EQ(error.code, ErrorCode::kDataLoss);
    for (const std::string& words : {std::string("/altered"), hash, weights_sha256(others)})
      EXPECT_NE(error.message.find(words), std::string::npos) << error.message;
  }
  EXPECT_EQ(inspect(files_, "/altered", HashMismatch::kAllow).tensors.size(), 1u);
  EXPECT_FALSE(compare(files_, "/whole", "/altered", HashMismatch::kAllow).is_equal());
}

TEST_F(InspectTest, CountsElementsThatAreNotFinite) {
  at::Tensor values = at::full({4}, 1, at::kFloat);
  values[1] = std::numeric_limits<double>::quiet_NaN();
  values[3] = -std::numeric_limits<double>::infinity();
  save("/w.safetensors", {{"a", values}, {"n", at::full({2}, 1, at::kLong)}});
  const Inspection seen = inspect(files_, "/w.safetensors");
  EXPECT_EQ(seen.tensors.at(0).not_finite, 2u);
  EXPECT_EQ(seen.tensors.at(1).not_finite, 0u);
}

TEST_F(InspectTest, RefusesAnythingElse) {
  files_->create_directories("/empty");
  testing::write_file(*files_, "/text", "hello, world");
  EXPECT_EQ(caught([&] { inspect(files_, "/absent"); }).code, ErrorCode::kNotFound);
  EXPECT_EQ(caught([&] { inspect(files_, "/empty"); }).code, ErrorCode::kNotFound);
  EXPECT_EQ(caught([&] { inspect(files_, "/text"); }).code, ErrorCode::kDataLoss);
}

TEST_F(InspectTest, ComparesNamesShapesAndValues) {
  save("/a", {{"same", at::full({2}, 1.0)},
              {"nan", at::full({2}, std::nan(""))},
              {"value", at::tensor({1.0, 2.0, 3.0})},
              {"shape", at::full({2}, 1.0)},
              {"dtype", at::full({2}, 1, at::kLong)},
              {"gone", at::full({2}, 1.0)}});
  save("/b", {{"same", at::full({2}, 1.0)},
              {"nan", at::full({2}, std::nan(""))},
              {"value", at::tensor({1.0, 2.5, 1.0})},
              {"shape", at::full({3}, 1.0)},
              {"dtype", at::full({2}, 1, at::kInt)},
              {"new", at::full({2}, 1.0)}});
  const Comparison found = compare(files_, "/a", "/b");
  EXPECT_FALSE(found.is_equal());
  EXPECT_EQ(found.equal, 2u);
  ASSERT_EQ(found.only_in_a.size(), 1u);
  EXPECT_EQ(found.only_in_a[0].name, "gone");
  ASSERT_EQ(found.only_in_b.size(), 1u);
  EXPECT_EQ(found.only_in_b[0].name, "new");
  ASSERT_EQ(found.form_differs.size(), 2u);
  EXPECT_EQ(found.form_differs[0].name, "dtype");
  EXPECT_EQ(found.form_differs[0].a, "int64 [2]");
  EXPECT_EQ(found.form_differs[1].b, "float32 [3]");
  ASSERT_EQ(found.value_differs.size(), 1u);
  EXPECT_EQ(found.value_differs[0].max_abs_difference, 2);
  EXPECT_EQ(found.value_differs[0].differing, 2u);
}

TEST_F(InspectTest, ComparesSpecialValues) {
  const double infinity = std::numeric_limits<double>::infinity();
  save("/a", {{"bool", at::tensor({1, 0}).to(at::kBool)}, {"inf", at::tensor({infinity, 1.0})}});
  save("/b",
       {{"bool", at::tensor({1, 1}).to(at::kBool)}, {"inf", at::tensor({infinity, std::nan("")})}});
  const Comparison found = compare(files_, "/a", "/b");
  ASSERT_EQ(found.value_differs.size(), 2u);
  EXPECT_EQ(found.value_differs[0].max_abs_difference, 1);
  EXPECT_TRUE(std::isnan(found.value_differs[1].max_abs_difference));
}

TEST_F(InspectTest, ComparesStepsAndStates) {
  save("/a", 1, sample(1));
  save("/b", 1, sample(1));
  EXPECT_TRUE(compare(files_, "/a", "/b").is_equal());
  Contents other = sample(1);
  other.state["position"] = 2;
  save("/c", 2, other);
  const Comparison found = compare(files_, "/a", "/c");
  EXPECT_TRUE(found.step_differs);
  EXPECT_TRUE(found.state_differs);
  EXPECT_TRUE(found.value_differs.empty());
}

}  // namespace
}  // namespace brigade::checkpoint
