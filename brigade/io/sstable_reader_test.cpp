#include "brigade/io/sstable_reader.h"

#include <gtest/gtest.h>

#include <random>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/io/testing/sstable_file.h"

namespace brigade::io {
namespace {

SstableEntries entries_of(std::string_view table) {
  SstableEntries entries;
  read_sstable(table, "t.index",
               [&](const SstableEntry& entry) { entries.emplace_back(entry.key, entry.value); });
  return entries;
}

struct TableRefusal {
  ErrorCode code = ErrorCode::kInternal;
  std::string message = "(nothing was thrown)";
};
TableRefusal table_refusal(std::string_view table) {
  try {
    entries_of(table);
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {};
}
/// The message of the refusal, which must be data loss.
std::string why(std::string_view table) {
  const TableRefusal refusal = table_refusal(table);
  EXPECT_EQ(refusal.code, ErrorCode::kDataLoss) << refusal.message;
  EXPECT_EQ(refusal.message.find("t.index: "), 0u) << refusal.message;
  return refusal.message;
}

SstableEntries numbered(int count) {
  SstableEntries entries = {{"", "header"}};
  for (int i = 0; i < count; ++i) {
    const std::string digits = std::to_string(1000 + i);
    entries.emplace_back("model/layer_" + digits + "/weights", std::string(i % 300, 'v'));
  }
  return entries;
}

std::string with(std::string table, std::size_t at, char value) {
  table[at] = value;
  return table;
}

TEST(SstableReader, ReadsEntriesInOneBlockAndInMany) {
  const SstableEntries entries = numbered(100);
  EXPECT_EQ(entries_of(sstable(entries)), entries);
  EXPECT_EQ(entries_of(sstable(entries, 7)), entries);
  EXPECT_EQ(entries_of(sstable({})), SstableEntries{});
  EXPECT_EQ(entries_of(sstable_of({sstable_block({})})), SstableEntries{});
}

TEST(SstableReader, KnowsTheFooter) {
  const std::string table = sstable(numbered(1));
  EXPECT_TRUE(has_sstable_footer(std::string_view(table).substr(table.size() - 48)));
  EXPECT_FALSE(has_sstable_footer(std::string_view(table).substr(table.size() - 47)));
  EXPECT_FALSE(has_sstable_footer(std::string(48, 'x')));
}

TEST(SstableReader, RefusesEveryTableThatIsCutShort) {
  const std::string table = sstable(numbered(20), 7);
  for (std::size_t size = 0; size < table.size(); ++size) {
    EXPECT_NE(why(std::string_view(table).substr(0, size)).find("cut short"), std::string::npos);
  }
}

// Every byte but the filling of the footer is covered by a checksum, or a handle.
TEST(SstableReader, RefusesEveryChangedByte) {
  const SstableEntries entries = numbered(20);
  const std::string table = sstable(entries, 7);
  int accepted = 0;
  for (std::size_t at = 0; at < table.size(); ++at) {
    for (const char changed : {static_cast<char>(table[at] ^ 1), static_cast<char>(~table[at])}) {
      try {
        EXPECT_EQ(entries_of(with(table, at, changed)), entries);
        ++accepted;
        EXPECT_GE(at, table.size() - 48);
      } catch (const Error&) {
      }
    }
  }
  EXPECT_LT(accepted, 2 * 40);
}

TEST(SstableReader, NamesTheOffsetOfAWrongChecksum) {
  const std::string table = sstable(numbered(20), 7);
  EXPECT_NE(why(with(table, 3, 'x')).find("wrong checksum, at byte 0"), std::string::npos);
}

TEST(SstableReader, RefusesACompressedBlockByName) {
  const TableRefusal refusal = table_refusal(sstable_of({sstable_block(numbered(3))}, '\1'));
  EXPECT_EQ(refusal.code, ErrorCode::kUnimplemented);
  EXPECT_NE(refusal.message.find("snappy"), std::string::npos) << refusal.message;
}

// Two index entries for one data block: ten of them would make the content ten times the file.
TEST(SstableReader, RefusesOverlappingBlocks) {
  const std::string data = sstable_block({{"a", "1"}});
  std::string table = sealed_sstable_block(data);
  const std::string meta = sstable_block({});
  const std::string index = sstable_block(
      {{"a", sstable_handle(0, data.size())}, {"b", sstable_handle(0, data.size())}}, 1);
  const std::string handles = sstable_handle(table.size(), meta.size()) +
                              sstable_handle(table.size() + meta.size() + 5, index.size());
  table += sealed_sstable_block(meta) + sealed_sstable_block(index) + sstable_footer(handles);
  EXPECT_NE(why(table).find("two blocks overlap"), std::string::npos);
}

TEST(SstableReader, RefusesABlockThatIsItsOwnIndex) {
  // The index block lists itself as a data block.
  std::string index, handle = sstable_handle(0, 0);
  for (int i = 0; i < 3; ++i) {
    index = sstable_block({{"a", handle}});
    handle = sstable_handle(0, index.size());
  }
  const std::string meta = sstable_block({});
  const std::string table = sealed_sstable_block(index) + sealed_sstable_block(meta) +
                            sstable_footer(sstable_handle(index.size() + 5, meta.size()) +
                                           sstable_handle(0, index.size()));
  EXPECT_NE(why(table).find("two blocks overlap"), std::string::npos);
}

TEST(SstableReader, RefusesHandlesBeyondTheFile) {
  const std::uint64_t kHuge = ~std::uint64_t{0};
  for (const auto& [offset, bytes] : {std::pair(kHuge, std::uint64_t{1}),
                                      {1, kHuge},
                                      {kHuge, kHuge},
                                      {std::uint64_t{0}, std::uint64_t{1000}}}) {
    const std::string handle = sstable_handle(offset, bytes);
    if (handle.size() > 20) continue;
    EXPECT_NE(why(sealed_sstable_block(sstable_block({})) + sstable_footer(handle + handle))
                  .find("reaches beyond"),
              std::string::npos);
  }
  EXPECT_NE(why(sstable_footer(std::string(40, '\xff'))).find("more than 64 bits"),
            std::string::npos);
}

TEST(SstableReader, RefusesLyingLengthsInABlock) {
  const std::string end = std::string(4, '\0') + "\1" + std::string(3, '\0');  // one restart at 0
  const auto block = [&](const std::string& entries) { return sstable_of({entries + end}); };
  EXPECT_EQ(entries_of(block(std::string("\0\1\1kv", 5))), (SstableEntries{{"k", "v"}}));
  EXPECT_NE(why(block(std::string("\0\2\1kv", 5))).find("a value of 1 bytes"), std::string::npos);
  EXPECT_NE(why(block(std::string("\0\xff\xff\xff\x7f\1kv", 8))).find("a key of 268435455 bytes"),
            std::string::npos);
  EXPECT_NE(why(block(std::string("\1\1\1kv", 5))).find("repeats 1 bytes"), std::string::npos);
  EXPECT_NE(why(block(std::string("\0\1\1kv\2\1\1kv", 10))).find("repeats 2 bytes"),
            std::string::npos);
  EXPECT_NE(why(block(std::string("\0\1\1kv\1\0\1v", 9))).find("out of order"), std::string::npos);
  EXPECT_NE(why(block(std::string("\0\1", 2))).find("a number of 1 bytes"), std::string::npos);
}

TEST(SstableReader, RefusesKeysOutOfOrderWithinAndBetweenBlocks) {
  EXPECT_NE(why(sstable({{"b", ""}, {"a", ""}})).find("out of order"), std::string::npos);
  EXPECT_NE(why(sstable({{"a", ""}, {"a", ""}})).find("out of order"), std::string::npos);
  EXPECT_NE(why(sstable({{"b", ""}, {"a", ""}}, 1)).find("out of order"), std::string::npos);
  EXPECT_NE(why(sstable({{"a", ""}, {"a", ""}}, 1)).find("out of order"), std::string::npos);
  EXPECT_EQ(entries_of(sstable({{"a", ""}, {"\xff", ""}}, 1)).size(), 2u);  // as unsigned bytes
}

TEST(SstableReader, RefusesLyingRestartPoints) {
  const std::string entry("\0\1\1kv", 5);
  const auto table = [&](const std::vector<std::uint32_t>& restarts, std::uint32_t count) {
    std::string block = entry;
    for (const std::uint32_t each : restarts) block += sstable_fixed32(each);
    return sstable_of({block + sstable_fixed32(count)});
  };
  EXPECT_EQ(entries_of(table({0}, 1)).size(), 1u);
  EXPECT_NE(why(table({0}, 0)).find("0 restart points"), std::string::npos);
  EXPECT_NE(why(table({0}, 1000)).find("1000 restart points"), std::string::npos);
  EXPECT_NE(why(table({1}, 1)).find("a restart point at 1"), std::string::npos);
  EXPECT_NE(why(table({0, 0}, 2)).find("a restart point at 0"), std::string::npos);
  EXPECT_NE(why(table({0, 99}, 2)).find("a restart point at 99"), std::string::npos);
  EXPECT_NE(why(table({0, 2}, 2)).find("not at an entry"), std::string::npos);
  EXPECT_NE(why(sstable_of({"abc"})).find("a block of 3 bytes"), std::string::npos);
}

// A key of 100 kB that every entry repeats: 68 MB of keys in a table of 110 kB. One is held.
TEST(SstableReader, HoldsOneKeyOfATableThatExpandsToMuch) {
  SstableEntries entries;
  const std::string begin(100'000, 'k');
  for (char a = 'a'; a <= 'z'; ++a) {
    for (char b = 'a'; b <= 'z'; ++b) entries.emplace_back(begin + a + b, "");
  }
  const std::string table = sstable_of({sstable_block(entries, 1000)});
  EXPECT_LT(table.size(), 110'000u);
  std::size_t bytes = 0;
  read_sstable(table, "t.index", [&](const SstableEntry& entry) { bytes += entry.key.size(); });
  EXPECT_GT(bytes, 60'000'000u);
}

}  // namespace
}  // namespace brigade::io
