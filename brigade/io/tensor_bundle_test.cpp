#include "brigade/io/tensor_bundle.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/io/proto/tensor_bundle.pb.h"
#include "brigade/io/tensor_slice_key.h"
#include "brigade/io/testing/sstable_file.h"

namespace brigade::io {
namespace {

using Shape = std::vector<std::int64_t>;

std::string header_of(int num_shards, int endianness = 0, int min_consumer = 0) {
  proto::BundleHeaderProto header;
  header.set_num_shards(num_shards);
  header.set_endianness(endianness);
  header.mutable_version()->set_producer(1);
  header.mutable_version()->set_min_consumer(min_consumer);
  return header.SerializeAsString();
}

/// An entry of float32, or of another dtype.
proto::BundleEntryProto entry_of(const Shape& shape, std::int64_t offset, std::int64_t size,
                                 int dtype = 1) {
  proto::BundleEntryProto entry;
  entry.set_dtype(dtype);
  for (const std::int64_t each : shape) entry.mutable_shape()->add_dim()->set_size(each);
  entry.set_offset(offset);
  entry.set_size(size);
  return entry;
}

/// Adds a part to the entry of a partitioned tensor; returns the key of the part's own entry.
std::string add_part(proto::BundleEntryProto& entry, const std::string& name,
                     const std::vector<SliceExtent>& extents) {
  auto& slice = *entry.add_slices();
  for (const SliceExtent& each : extents) {
    auto& extent = *slice.add_extent();
    extent.set_start(each.start);
    if (each.length != SliceExtent::kWhole) extent.set_length(each.length);
  }
  return tensor_slice_key(name, extents);
}

TensorBundleIndex parse(SstableEntries entries, int num_shards = 1) {
  entries.emplace(entries.begin(), "", header_of(num_shards));
  std::ranges::sort(entries);
  return parse_tensor_bundle_index(sstable(entries), "b.index");
}

/// The entry alone, as the tensor "v".
TensorBundleIndex parse(const proto::BundleEntryProto& entry, int num_shards = 1) {
  return parse(SstableEntries{{"v", entry.SerializeAsString()}}, num_shards);
}

template <class Call>
std::string refusal(Call call, ErrorCode code = ErrorCode::kDataLoss) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "(nothing was thrown)";
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(TensorBundle, ListsTensorsWithTheirShapesAndDtypes) {
  const TensorBundleIndex index = parse({{"b", entry_of({2, 3}, 0, 24).SerializeAsString()},
                                         {"scalar", entry_of({}, 24, 8, 9).SerializeAsString()},
                                         {"text", entry_of({7}, 32, 1000, 7).SerializeAsString()},
                                         {"new", entry_of({7}, 2000, 3, 99).SerializeAsString()}});
  ASSERT_EQ(index.tensors.size(), 4u);
  EXPECT_EQ(index.tensors[0].name, "b");
  EXPECT_EQ(index.tensors[0].dtype_name, "float32");
  EXPECT_EQ(index.tensors[0].dtype->name, "F32");
  EXPECT_EQ(index.tensors[0].shape, (Shape{2, 3}));
  EXPECT_EQ(index.tensors[0].parts.size(), 1u);
  EXPECT_EQ(index.tensors[1].dtype_name, "dtype 99");
  EXPECT_EQ(index.tensors[1].dtype, std::nullopt);
  EXPECT_EQ(index.tensors[2].name, "scalar");
  EXPECT_EQ(index.tensors[2].shape, Shape{});
  EXPECT_EQ(index.tensors[3].dtype_name, "string");
  EXPECT_EQ(index.tensors[3].dtype, std::nullopt);
}

TEST(TensorBundle, RefusesHeadersOfOtherFormats) {
  const auto with_header = [](const std::string& header) {
    return [header] { parse_tensor_bundle_index(sstable({{"", header}}), "b.index"); };
  };
  EXPECT_TRUE(has(refusal(with_header(header_of(1, 1)), ErrorCode::kUnimplemented), "big-endian"));
  EXPECT_TRUE(
      has(refusal(with_header(header_of(1, 0, 2)), ErrorCode::kUnimplemented), "version 2"));
  EXPECT_TRUE(has(refusal(with_header("\x0a\x02\x08\x01"), ErrorCode::kUnimplemented), "V1"));
  EXPECT_TRUE(has(refusal(with_header("\x08")), "header"));
  EXPECT_TRUE(has(refusal(with_header(header_of(-1))), "-1 data files"));
  EXPECT_TRUE(has(refusal([] {
                    parse_tensor_bundle_index(sstable({{"v", ""}}), "b.index");
                  }),
                  "b.index: not a valid index of a checkpoint: it has no header"));
  EXPECT_TRUE(has(refusal([] { parse_tensor_bundle_index(sstable({}), "b.index"); }), "no header"));
}

TEST(TensorBundle, RefusesEntriesThatContradictThemselves) {
  EXPECT_TRUE(has(refusal([] { parse({{"v", "\x08"}}); }), "tensor 'v': it is not a Bundle"));
  EXPECT_TRUE(has(refusal([] { parse(entry_of({2}, 0, 4)); }), "takes 8 bytes, and it has 4"));
  EXPECT_TRUE(has(refusal([] { parse(entry_of({-1}, 0, 4)); }), "negative or too large"));
  EXPECT_TRUE(has(refusal([] { parse(entry_of({1L << 40, 1L << 40}, 0, 0)); }), "too large"));
  EXPECT_TRUE(has(refusal([] { parse(entry_of({0, 1L << 40, 1L << 40}, 0, 0)); }), "too large"));
  EXPECT_TRUE(has(refusal([] { parse(entry_of({1L << 61}, 0, 0)); }), "too many bytes"));
  EXPECT_TRUE(has(refusal([] { parse(entry_of(Shape(65, 1), 0, 4)); }), "at most 64 numbers"));
  EXPECT_TRUE(has(refusal([] { parse(entry_of({1}, -1, 4)); }), "4 bytes at -1"));
  EXPECT_TRUE(has(refusal([] { parse(entry_of({}, 0, -4, 7)); }), "-4 bytes at 0"));
  auto entry = entry_of({1}, 0, 4);
  entry.set_shard_id(2);
  EXPECT_TRUE(has(refusal([&] { parse(entry, 2); }), "data file 2 of 2"));
  entry.set_shard_id(-1);
  EXPECT_TRUE(has(refusal([&] { parse(entry); }), "data file -1 of 1"));
  entry.mutable_shape()->set_unknown_rank(true);
  EXPECT_TRUE(has(refusal([&] { parse(entry); }), "shape"));
}

// Names go into JSON and into other files.
TEST(TensorBundle, RefusesNamesThatAreNotText) {
  const std::string entry = entry_of({1}, 0, 4).SerializeAsString();
  EXPECT_EQ(parse({{"h\u00fcte", entry}}).tensors.size(), 1u);
  EXPECT_TRUE(has(refusal([&] { parse({{"a\xff", entry}}); }), "'a\\xff' is not UTF-8"));
}

class PartitionedTensor : public ::testing::Test {
 protected:
  /// Tensor v [5, 2], in parts of 3 and 2 rows.
  PartitionedTensor() {
    first_ = add_part(whole_, "v", {{.start = 0, .length = 3}, {}});
    second_ = add_part(whole_, "v", {{.start = 3, .length = 2}, {.start = 0, .length = 2}});
  }
  TensorBundleIndex parse_parts() const {
    return parse({{"v", whole_.SerializeAsString()},
                  {first_, first_entry_.SerializeAsString()},
                  {second_, second_entry_.SerializeAsString()}});
  }
  std::string refusal_of_parts(ErrorCode code = ErrorCode::kDataLoss) const {
    return refusal([this] { parse_parts(); }, code);
  }
  proto::BundleEntryProto whole_ = entry_of({5, 2}, 0, 0);
  proto::BundleEntryProto first_entry_ = entry_of({3, 2}, 16, 24);
  proto::BundleEntryProto second_entry_ = entry_of({2, 2}, 0, 16);
  std::string first_, second_;
};

TEST_F(PartitionedTensor, HasItsPartsInOrder) {
  std::swap(*whole_.mutable_slices(0), *whole_.mutable_slices(1));
  const TensorBundleIndex index = parse_parts();
  ASSERT_EQ(index.tensors.size(), 1u) << "parts are not tensors";
  const TensorBundleEntry& v = index.tensors[0];
  EXPECT_EQ(v.axis, 0);
  ASSERT_EQ(v.parts.size(), 2u);
  EXPECT_EQ(v.parts[0].start, 0);
  EXPECT_EQ(v.parts[0].length, 3);
  EXPECT_EQ(v.parts[0].offset, 16u);
  EXPECT_EQ(v.parts[1].start, 3);
  EXPECT_EQ(v.parts[1].bytes, 16u);
}

TEST_F(PartitionedTensor, NeedsAllPartsOnce) {
  auto one = whole_;
  one.mutable_slices()->RemoveLast();
  std::swap(one, whole_);
  EXPECT_TRUE(has(refusal_of_parts(), "its parts end at 3"));
  std::swap(one, whole_);
  *whole_.mutable_slices(1) = whole_.slices(0);
  EXPECT_TRUE(has(refusal_of_parts(), "a hole or overlap at 3"));
}

TEST_F(PartitionedTensor, NeedsTheEntryOfEachPart) {
  second_ = "w";
  EXPECT_TRUE(has(refusal_of_parts(), "2 parts, and there are 1"));
  second_ = tensor_slice_key("w", {});
  EXPECT_TRUE(has(refusal_of_parts(), "the part from 3 of length 2 has no entry"));
}

TEST_F(PartitionedTensor, NeedsPartsThatAgreeWithIt) {
  second_entry_ = entry_of({2, 3}, 0, 24);
  EXPECT_TRUE(has(refusal_of_parts(), "another shape in its entry"));
  second_entry_ = entry_of({2, 2}, 0, 12);
  EXPECT_TRUE(has(refusal_of_parts(), "takes 16 bytes, and it has 12"));
  second_entry_ = whole_;
  EXPECT_TRUE(has(refusal_of_parts(), "a part has parts"));
}

TEST_F(PartitionedTensor, RefusesPartsBeyondItAndOfOtherRank) {
  whole_.mutable_slices(1)->mutable_extent(0)->set_length(INT64_MAX);
  EXPECT_TRUE(has(refusal_of_parts(), "is not within a dimension of 5"));
  whole_.mutable_slices(1)->mutable_extent(0)->set_start(-1);
  EXPECT_TRUE(has(refusal_of_parts(), "a part from -1"));
  whole_.mutable_slices(1)->mutable_extent()->RemoveLast();
  EXPECT_TRUE(has(refusal_of_parts(), "a part has 1 dimensions, and it has 2"));
}

TEST_F(PartitionedTensor, RefusesPartsAlongTwoDimensions) {
  whole_.mutable_slices(1)->mutable_extent(1)->set_length(1);
  EXPECT_TRUE(has(refusal_of_parts(ErrorCode::kUnimplemented), "several dimensions"));
  whole_.mutable_slices(1)->mutable_extent(0)->clear_length();
  whole_.mutable_slices(1)->mutable_extent(0)->set_start(0);
  EXPECT_TRUE(has(refusal_of_parts(ErrorCode::kUnimplemented), "several dimensions"));
}

TEST(TensorBundle, NamesDataFilesAsTensorFlowDoes) {
  EXPECT_EQ(tensor_bundle_shard_name("m.ckpt", 1, 2), "m.ckpt.data-00001-of-00002");
  EXPECT_EQ(tensor_bundle_shard_name("m", 123456, 200000), "m.data-123456-of-200000");
}

TEST(TensorBundle, ChecksPartsAgainstTheDataFiles) {
  const auto check = [](std::int64_t b_offset, std::uint64_t size) {
    const TensorBundleIndex index = parse({{"a", entry_of({2}, 0, 8).SerializeAsString()},
                                           {"b", entry_of({2}, b_offset, 8).SerializeAsString()},
                                           {"empty", entry_of({0}, 8, 0).SerializeAsString()}});
    check_tensor_bundle_shards(index, "m", [&](int shard) {
      EXPECT_EQ(shard, 0);
      return size;
    });
  };
  check(8, 16);
  check(16, 100);
  EXPECT_TRUE(has(refusal([&] { check(8, 15); }),
                  "m.data-00000-of-00001: 8 bytes at 8 of tensor 'b' reach beyond the file's 15"));
  EXPECT_TRUE(has(refusal([&] { check(INT64_MAX, 16); }), "reach beyond"));
  EXPECT_TRUE(has(refusal([&] { check(4, 16); }), "belong to another tensor"));
  EXPECT_TRUE(has(refusal([&] { check(0, 16); }), "belong to another tensor"));
}

// A table of 30 kB whose names would take 20 MB.
TEST(TensorBundle, RefusesNamesThatExpand) {
  SstableEntries entries = {{"", header_of(1)}};
  const std::string begin(20'000, 'k');
  for (int i = 100'000; i < 101'000; ++i) entries.emplace_back(begin + std::to_string(i), "");
  const std::string table = sstable_of({sstable_block(entries, 100'000)});
  EXPECT_LT(table.size(), 40'000u);
  EXPECT_TRUE(has(refusal([&] { parse_tensor_bundle_index(table, "b.index"); }),
                  "the names take more than 16 times"));
}

}  // namespace
}  // namespace brigade::io
