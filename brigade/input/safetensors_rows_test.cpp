#include "brigade/input/safetensors_rows.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include "brigade/data/testing/dataset_contract.h"
#include "brigade/io/safetensors_header.h"
#include "brigade/io/testing/memory_file_system.h"

namespace brigade::input {
namespace {

using data::testing::error_of;

/// Three rows of two floats, 0 to 5; labels 7, 8, 9; a scalar.
std::string file_content() {
  io::SafetensorsHeader header;
  const io::TensorDtype f32{"F32", 4}, i64{"I64", 8};
  header.tensors.push_back({"labels", i64, {3}, 0, 24});
  header.tensors.push_back({"features", f32, {3, 2}, 24, 48});
  header.tensors.push_back({"scale", f32, {}, 48, 52});
  const std::string text = io::write_safetensors_header(header);
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(text.size());
  bytes[1] = static_cast<char>(text.size() >> 8);
  bytes += text;
  const std::int64_t labels[] = {7, 8, 9};
  const float features[] = {0, 1, 2, 3, 4, 5, 0.5};
  bytes.append(reinterpret_cast<const char*>(labels), sizeof labels);
  bytes.append(reinterpret_cast<const char*>(features), sizeof features);
  return bytes;
}

std::shared_ptr<io::MemoryFileSystem> files_with(const std::string& content) {
  auto files = std::make_shared<io::MemoryFileSystem>();
  const auto file = files->create("/data.safetensors", io::CreateMode::kTruncate);
  file->write(io::as_bytes(content));
  file->close();
  return files;
}

const io::Path kPath = "/data.safetensors";

TEST(FromSafetensors, GivesTheRowsOfATensor) {
  const auto rows = from_safetensors(kPath, "features", files_with(file_content()));
  EXPECT_EQ(rows.cardinality(), 3);
  const auto elements = data::testing::epoch_of(rows);
  ASSERT_EQ(elements.size(), 3U);
  for (int i = 0; i < 3; ++i) {
    const at::Tensor expected = at::arange(2 * i, 2 * i + 2, at::kFloat);
    EXPECT_TRUE(elements[static_cast<std::size_t>(i)].equal(expected));
  }
}

TEST(FromSafetensors, PairsRowsWithLabels) {
  const auto examples =
      from_safetensors(kPath, "features", "labels", files_with(file_content())).batch(3);
  const auto batch = examples.iterator().next().value();
  EXPECT_TRUE(batch.features.equal(at::arange(6, at::kFloat).view({3, 2})));
  EXPECT_TRUE(batch.labels.equal(at::arange(7, 10, at::kLong)));
}

TEST(FromSafetensors, ResumesAtASavedPosition) {
  const auto labels = from_safetensors(kPath, "labels", files_with(file_content()))
                          .map([](const at::Tensor& label) { return label.item<std::int64_t>(); });
  data::testing::expect_contract(labels, std::vector<std::int64_t>{7, 8, 9});
}

TEST(FromSafetensors, ErrorsListTheTensors) {
  const Error error =
      error_of([] { from_safetensors(kPath, "images", files_with(file_content())); });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_STREQ(error.what(), "There is no tensor 'images'; there are: labels, features, scale.");
}

TEST(FromSafetensors, RefusesScalarsAndLabelsOfAnotherNumberOrKind) {
  const auto files = files_with(file_content());
  data::testing::expect_invalid_argument([&] { from_safetensors(kPath, "scale", files); },
                                         "is a scalar");
  data::testing::expect_invalid_argument(
      [&] { from_safetensors(kPath, "labels", "features", files); }, "there must be 3 integers");
}

TEST(FromSafetensors, RefusesTruncatedFiles) {
  const std::string whole = file_content();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const Error error =
        error_of([&] { from_safetensors(kPath, "features", files_with(whole.substr(0, size))); });
    ASSERT_EQ(error.code(), ErrorCode::kDataLoss) << size;
  }
}

}  // namespace
}  // namespace brigade::input
