#include "brigade/checkpoint/zip_reader.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "brigade/checkpoint/testing/sample.h"
#include "brigade/checkpoint/testing/zip_file.h"
#include "brigade/io/file_system.h"

namespace brigade::checkpoint {
namespace {

using testing::caught;

std::string archive() {
  return io::posix_file_system()->read(io::Path(BRIGADE_CHECKPOINT_TEST_DATA) / "bare.pt");
}

ErrorCode code_of(const std::string& bytes) {
  return caught([&] {
           const ZipReader zip(bytes, "f");
           for (const auto& [name, entry] : zip.entries()) zip.read(name);
         })
      .code;
}

/// The archive with another number at `offset` bytes after the first `mark`.
template <class Number>
std::string changed(std::string_view mark, std::size_t offset, Number number) {
  std::string bytes = archive();
  const auto at = bytes.find(mark);
  EXPECT_NE(at, std::string::npos);
  std::memcpy(bytes.data() + at + offset, &number, sizeof number);
  return bytes;
}

TEST(ZipReader, ReadsStoredEntries) {
  const std::string bytes = archive();
  const ZipReader zip(bytes, "f");
  EXPECT_TRUE(zip.has("bare/data.pkl"));
  EXPECT_EQ(zip.read("bare/byteorder"), "little");
  EXPECT_EQ(zip.read("bare/data/0").size(), 8u);
  EXPECT_EQ(caught([&] { zip.read("bare/absent"); }).code, ErrorCode::kDataLoss);
}

TEST(ZipReader, RefusesEntriesOutsideTheArchive) {
  EXPECT_EQ(code_of(archive()), ErrorCode::kInternal);  // nothing is thrown
  const std::string_view central = "PK\1\2";
  const std::string_view end = "PK\5\6";
  EXPECT_EQ(code_of(changed(central, 24, std::uint32_t{0x7fffffff})), ErrorCode::kDataLoss);
  EXPECT_EQ(code_of(changed(central, 42, std::uint32_t{0x7fffffff})), ErrorCode::kDataLoss);
  EXPECT_EQ(code_of(changed(central, 28, std::uint16_t{0xffff})), ErrorCode::kDataLoss);
  EXPECT_EQ(code_of(changed(central, 16, std::uint32_t{0})), ErrorCode::kDataLoss);
  EXPECT_EQ(code_of(changed(end, 0, std::uint32_t{0})), ErrorCode::kDataLoss);
  EXPECT_EQ(code_of("PK\3\4"), ErrorCode::kDataLoss);
  EXPECT_EQ(code_of(""), ErrorCode::kDataLoss);
}

TEST(ZipReader, RefusesOverlappingEntries) {
  testing::ZipFile sound;
  sound.add("a", "first");
  sound.add("b", "");
  sound.add("c", "third");
  EXPECT_EQ(code_of(sound.bytes()), ErrorCode::kInternal);  // nothing is thrown
  testing::ZipFile nested;                                  // the data of "a" is an entry, too
  const std::string inner = "inner";
  const std::string outer = testing::ZipFile::local_header("b", inner) + inner;
  const auto begin = nested.add("a", outer);
  const auto header = testing::ZipFile::local_header("a", outer).size();
  nested.list("b", inner, begin + static_cast<std::uint32_t>(header));
  EXPECT_EQ(code_of(nested.bytes()), ErrorCode::kDataLoss);
}

TEST(ZipReader, ACompressedEntryIsRefusedWhenItIsRead) {
  const std::string bytes = changed("PK\1\2", 10, std::uint16_t{8});  // the first, data.pkl
  const ZipReader zip(bytes, "f");
  EXPECT_EQ(zip.read("bare/byteorder"), "little");
  EXPECT_EQ(caught([&] { zip.read("bare/data.pkl"); }).code, ErrorCode::kUnimplemented);
}

TEST(ZipReader, RefusesCompressedAndEncryptedEntriesByName) {
  EXPECT_EQ(code_of(changed("PK\1\2", 10, std::uint16_t{8})), ErrorCode::kUnimplemented);
  EXPECT_EQ(code_of(changed("PK\1\2", 8, std::uint16_t{1})), ErrorCode::kUnimplemented);
}

}  // namespace
}  // namespace brigade::checkpoint
