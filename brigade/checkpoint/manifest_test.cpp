#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "brigade/base/strings.h"
#include "brigade/checkpoint/manifest.h"
#include "brigade/checkpoint/testing/sample.h"
#include "brigade/device/dtypes.h"
#include "brigade/io/crc32c.h"

namespace brigade::checkpoint {
namespace {

using testing::caught;

device::FileDtype dtype(std::string_view name) {
  return *device::file_dtype_named(name);
}

Manifest sample_manifest() {
  Manifest manifest{
      .number = 7,
      .step = 120,
      .time = std::chrono::milliseconds(1'700'000'000'123),
      .files = {{"variables-00001-of-00001.safetensors", {200, 0x01234567}},
                {"state-00001-of-00001.safetensors", {100, 0xfedcba98}}},
      .tensors = {},
      .metrics = {{"accuracy", 0.5}, {"loss", std::numeric_limits<double>::infinity()}},
      .metadata = {{"strategy", "mirrored"}},
      .kept = {true, 100, std::chrono::milliseconds(99)},
      .state = R"({"at":{"x":"$array:state/at/x"},"rate":1.0,"seed":"$uint64:7"})"};
  manifest.tensors[0]["conv1/weights"] = {.file = 0, .dtype = dtype("F32"), .shape = {2, 3}};
  manifest.tensors[2]["state/at/x"] = {.file = 1, .dtype = dtype("U8"), .shape = {0}};
  return manifest;
}

/// The text with another body and a matching checksum.
std::string sealed(std::string body) {
  return base::str_cat(body, ",\"crc32c\":\"", to_hex(io::crc32c(io::as_bytes(body))), "\"}\n");
}

std::string body_of_sample() {
  const std::string text = write_manifest(sample_manifest());
  return text.substr(0, text.rfind(",\"crc32c\""));
}

/// The sample with `from` replaced by `to`, and a matching checksum.
std::string mutated(std::string_view from, std::string_view to) {
  std::string body = body_of_sample();
  const auto at = body.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return sealed(body.replace(at, from.size(), to));
}

ErrorCode code_of(std::string_view text) {
  return caught([&] { parse_manifest(text, "dir/manifest.json"); }).code;
}

TEST(Manifest, ReadsBackWhatItWrote) {
  const Manifest before = sample_manifest();
  const std::string text = write_manifest(before);
  const Manifest after = parse_manifest(text, "m");
  EXPECT_EQ(after.number, 7);
  EXPECT_EQ(after.step, 120);
  EXPECT_EQ(after.time, before.time);
  EXPECT_EQ(after.files, before.files);
  EXPECT_EQ(after.metrics, before.metrics);
  EXPECT_EQ(after.metadata, before.metadata);
  EXPECT_EQ(after.kept, before.kept);
  EXPECT_EQ(after.state, before.state);
  EXPECT_EQ(after.section(Section::kVariables).at("conv1/weights").shape,
            (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(after.bytes(), 300u);
  EXPECT_EQ(write_manifest(after), text);
}

TEST(Manifest, RefusesEveryTruncation) {
  const std::string text = write_manifest(sample_manifest());
  for (std::size_t size = 0; size < text.size(); ++size) {
    ASSERT_EQ(code_of(std::string_view(text).substr(0, size)), ErrorCode::kDataLoss) << size;
  }
}

TEST(Manifest, RefusesEveryChangedByte) {
  const std::string text = write_manifest(sample_manifest());
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string broken = text;
    broken[at] = static_cast<char>(broken[at] ^ 1);
    ASSERT_EQ(code_of(broken), ErrorCode::kDataLoss) << at;
  }
}

TEST(Manifest, ErrorsNameTheFileAndTheLocation) {
  const auto error =
      caught([] { parse_manifest(mutated("[2,3]", "[2,-3]"), "dir/manifest.json"); });
  EXPECT_NE(error.message.find("dir/manifest.json"), std::string::npos) << error.message;
  EXPECT_NE(error.message.find("conv1/weights"), std::string::npos) << error.message;
}

TEST(Manifest, RefusesInvalidContent) {
  const std::pair<std::string_view, std::string_view> changes[] = {
      {"[2,3]", "[2,-3]"},
      {"[2,3]", "[2,1.5]"},
      {"[2,3]", "[4294967296,4294967296]"},
      {"[2,3]", "[0,4294967296,4294967296]"},  // empty, but its strides overflow
      {"[2,3]", "[2,30]"},                     // more than its file holds
      {"[2,3]", "{}"},
      {"\"conv1/weights\":{", "\"conv1/weights\":{\"file\":0,"},  // a key twice
      {"\"conv1/weights\":{",
       "\"conv1/weights\":{\"file\":0,\"dtype\":\"F32\",\"shape\":[1]},\"conv1/weights\":{"},
      {"\"conv1/weights\":{",  // each fits into 63 bits, but their sum does not fit into 64
       "\"a\":{\"file\":0,\"dtype\":\"U8\",\"shape\":[9223372036854775807]},"
       "\"b\":{\"file\":0,\"dtype\":\"U8\",\"shape\":[9223372036854775807]},"
       "\"conv1/weights\":{"},
      {"\"F32\"", "\"F33\""},
      {"\"F32\"", "7"},
      {"\"file\":0", "\"file\":2"},
      {"\"file\":0", "\"file\":-1"},
      {"\"file\":0", "\"file\":1"},  // another section's file
      {"\"bytes\":200", "\"bytes\":18446744073709551615"},
      {"\"bytes\":200", "\"bytes\":\"200\""},
      {"\"01234567\"", "\"0123456\""},
      {"\"01234567\"", "\"0123456Z\""},
      {"variables-00001-of-00001.safetensors", "../secret.safetensors"},
      {"variables-00001-of-00001.safetensors", ".hidden.safetensors"},
      {"variables-00001-of-00001.safetensors", "/etc/passwd"},
      {"variables-00001-of-00001.safetensors", "state-00001-of-00001.safetensors"},
      {"\"step\":120", "\"step\":-1"},
      {"\"step\":120", "\"step\":1e3"},
      {"\"step\":120", "\"step\":120,\"step\":121"},
      {"\"step\":120", "\"stepp\":120"},
      {"\"step\":120,", ""},
      {"\"number\":7", "\"number\":0"},
      {"\"is_kept\":true", "\"is_kept\":1"},
      {"\"accuracy\":0.5", "\"accuracy\":\"high\""},
      {"\"strategy\":\"mirrored\"", "\"strategy\":1"},
      {"\"brigade_checkpoint\":1", "\"brigade_checkpoint\":0"},
      {"\"brigade_checkpoint\":1", "\"other\":1"},
      {"\"conv1/weights\":{", "\"conv1/weights\":{\"more\":1,"},
  };
  for (const auto& [from, to] : changes) {
    EXPECT_EQ(code_of(mutated(from, to)), ErrorCode::kDataLoss) << from << " -> " << to;
  }
  EXPECT_EQ(code_of(sealed("[1")), ErrorCode::kDataLoss);
  EXPECT_EQ(code_of(sealed("{\"a\":1")), ErrorCode::kDataLoss);
}

TEST(Manifest, RefusesAFileThatHoldsNothing) {
  Manifest manifest = sample_manifest();
  ManifestFile& unused = manifest.files.emplace_back();
  unused.name = "tensors-00001-of-00001.safetensors";
  EXPECT_EQ(code_of(write_manifest(manifest)), ErrorCode::kDataLoss);
}

TEST(Manifest, RefusesDeepNesting) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_EQ(code_of(mutated("\"rate\":1.0", "\"rate\":" + deep)), ErrorCode::kDataLoss);
}

TEST(Manifest, RefusesANewerVersionByName) {
  const auto error = caught(
      [] { parse_manifest(mutated("\"brigade_checkpoint\":1", "\"brigade_checkpoint\":2"), "m"); });
  EXPECT_EQ(error.code, ErrorCode::kUnimplemented);
  EXPECT_NE(error.message.find("version 2"), std::string::npos) << error.message;
}

TEST(Manifest, TakesAHundredThousandEntries) {
  Manifest manifest = sample_manifest();
  manifest.files[0].seal.bytes = 1'000'000;
  for (int i = 0; i < 100'000; ++i) {
    manifest.tensors[0].emplace(base::str_cat("v", i),
                                ManifestTensor{.file = 0, .dtype = dtype("U8"), .shape = {1}});
  }
  EXPECT_EQ(parse_manifest(write_manifest(manifest), "m").tensors[0].size(), 100'001u);
  manifest.tensors[0].at("v99999").shape = {1'000'000};  // with the others, more than the file
  EXPECT_EQ(code_of(write_manifest(manifest)), ErrorCode::kDataLoss);
}

TEST(Manifest, RefusesToWriteInvalidUtf8) {
  Manifest manifest = sample_manifest();
  manifest.metadata["x"] = "\xff";
  EXPECT_EQ(caught([&] { write_manifest(manifest); }).code, ErrorCode::kInvalidArgument);
}

}  // namespace

}  // namespace brigade::checkpoint
