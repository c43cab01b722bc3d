#include "brigade/io/state_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::io {
namespace {

using base::str_cat;
using testing::HasSubstr;

StateTree round_trip(const StateTree& tree) {
  StateJson written = to_json(tree);
  return from_json(written.json, std::move(written.arrays));
}

/// The message of the kDataLoss that reading throws.
std::string state_refusal(std::string_view text, std::map<std::string, ArrayLeaf> arrays = {}) {
  try {
    from_json(text, std::move(arrays));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "accepted " << text.substr(0, 80);
  return "";
}

StateTree::Bytes bytes(std::initializer_list<int> values) {
  StateTree::Bytes result;
  for (const int value : values) result.push_back(static_cast<std::byte>(value));
  return result;
}

template <class T>
class IntegerRoundTrip : public testing::Test {};
using Integers = testing::Types<std::int64_t, std::uint64_t>;
TYPED_TEST_SUITE(IntegerRoundTrip, Integers);

TYPED_TEST(IntegerRoundTrip, KeepsTypeAndValue) {
  using Limits = std::numeric_limits<TypeParam>;
  for (const TypeParam value :
       {TypeParam{0}, TypeParam{1}, static_cast<TypeParam>(-1), Limits::min(), Limits::max(),
        static_cast<TypeParam>(std::int64_t{1} << 53),
        static_cast<TypeParam>((std::int64_t{1} << 53) - 1)}) {
    const StateTree read = round_trip(value);
    EXPECT_EQ(read.kind(), StateTree(value).kind());
    EXPECT_EQ(read, StateTree(value));
  }
}

TEST(StateJson, KeepsEveryBitOfADouble) {
  using Limits = std::numeric_limits<double>;
  for (const double value :
       {0.0, -0.0, 1.0, 0.1, 1e20, 1e300, 5e-324, Limits::max(), Limits::lowest(), Limits::min(),
        Limits::epsilon(), Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
        -Limits::quiet_NaN(), std::bit_cast<double>(0x7ff8000000000001u), 9007199254740993.0}) {
    EXPECT_EQ(round_trip(value), StateTree(value)) << value;
  }
}

TEST(StateJson, KeepsStringsThatLookLikeSpecialValues) {
  for (const char* text : {"", "plain", "$", "$$", "$5", "$uint64:3", "$double:nan", "$bytes:x",
                           "nan", "17", "\"quoted\" \\ \n\t\x01",
                           "Gr\xc3\xbc\xc3\x9f"
                           "e \xf0\x9f\x98\x80"}) {
    EXPECT_EQ(round_trip(text), StateTree(text)) << text;
  }
  const std::string with_nul("a\0b", 3);
  EXPECT_EQ(round_trip(with_nul), StateTree(with_nul));
}

TEST(StateJson, KeepsStructure) {
  StateTree tree;
  tree["null"];
  tree["yes"] = true;
  tree["no"] = false;
  tree["empty list"] = StateTree::list();
  tree["empty dict"] = StateTree::dict();
  tree[""] = "empty key";
  tree["$uint64:1"] = "keys are never interpreted";
  tree["nested"].push_back(StateTree::list());
  tree["nested"].push_back(tree);
  EXPECT_EQ(round_trip(tree), tree);
  EXPECT_EQ(round_trip(StateTree()), StateTree());
}

TEST(StateJson, WritesTheDocumentedFormat) {
  StateTree tree;
  tree["seed"] = std::uint64_t{7};
  tree["rate"] = 1.0;
  tree["epoch"] = 3;
  tree["price"] = "$5";
  tree["bits"] = bytes({1, 2});
  const StateJson written = to_json(tree);
  EXPECT_EQ(
      written.json,
      R"({"bits":"$bytes:state/bits","epoch":3,"price":"$$5","rate":1.0,"seed":"$uint64:7"})");
  ASSERT_EQ(written.arrays.size(), 1u);
  EXPECT_EQ(written.arrays.at("state/bits"), (ArrayLeaf{"U8", {2}, bytes({1, 2})}));
  EXPECT_EQ(to_json(std::numeric_limits<std::int64_t>::min()).json,
            "\"$int64:-9223372036854775808\"");
  EXPECT_EQ(to_json(std::numeric_limits<double>::quiet_NaN()).json, "\"$double:nan\"");
  EXPECT_EQ(to_json(std::bit_cast<double>(0x7ff8000000000001u)).json,
            "\"$double:nan:7ff8000000000001\"");
}

TEST(StateJson, StoresBytesAndArraysNextToTheText) {
  StateTree tree;
  tree["buffer"].push_back(bytes({}));
  tree["buffer"].push_back(ArrayLeaf{"F32", {1, 2}, StateTree::Bytes(8)});
  tree["a/b"] = bytes({1});
  tree["a"]["b"] = bytes({2});
  tree["a~1b"] = bytes({3});
  const StateJson written = to_json(tree, "worker0");
  std::vector<std::string> names;
  for (const auto& [name, array] : written.arrays) names.push_back(name);
  EXPECT_THAT(names, testing::UnorderedElementsAre("worker0/buffer/0", "worker0/buffer/1",
                                                   "worker0/a~1b", "worker0/a/b", "worker0/a~01b"));
  EXPECT_EQ(from_json(written.json, written.arrays), tree);
  EXPECT_EQ(round_trip(bytes({9})), StateTree(bytes({9})));
}

TEST(StateJson, IgnoresUnreferencedArrays) {
  EXPECT_EQ(from_json("1", {{"weights", {"U8", {0}, {}}}}), StateTree(1));
}

TEST(StateJson, RefusesMissingReusedAndBrokenArrays) {
  const ArrayLeaf good{"U8", {1}, bytes({1})};
  EXPECT_THAT(state_refusal(R"({"x":"$bytes:b"})"),
              HasSubstr("state[\"x\"]: refers to the array \"b\""));
  EXPECT_THAT(state_refusal(R"(["$bytes:b","$bytes:b"])", {{"b", good}}), HasSubstr("state[1]"));
  EXPECT_THAT(state_refusal(R"("$array:b")", {{"b", {"F32", {2}, bytes({1})}}}),
              HasSubstr("1 bytes"));
  EXPECT_THAT(state_refusal(R"("$bytes:b")", {{"b", {"I8", {1}, bytes({1})}}}), HasSubstr("U8"));
  EXPECT_THAT(state_refusal(R"("$bytes:b")", {{"b", {"U8", {1, 1}, bytes({1})}}}),
              HasSubstr("dimension"));
}

TEST(StateJson, RefusesBrokenText) {
  for (const char* text : {"", " ", "{", "[1,]", "{\"a\":1,}", "nul", "1 2", "{\"a\" 1}",
                           "\"\xff\"", "'a'", "01", "NaN", "// c\n1", "[1] x"}) {
    EXPECT_THAT(state_refusal(text), HasSubstr("cannot be read at byte")) << text;
  }
}

TEST(StateJson, RefusesANulAndAByteOrderMark) {
  using std::string_literals::operator""s;
  for (const std::string& text : {"{}\0{}"s, "{}\0"s, "\xef\xbb\xbf{}"s}) {
    EXPECT_THROW(from_json(text), Error) << testing::PrintToString(text);
  }
}

TEST(StateJson, RefusesUnknownForms) {
  for (const char* text : {"$", "$5", "$uint64:", "$uint64:-1", "$uint64:18446744073709551616",
                           "$uint64: 1", "$uint64:1x", "$int64:", "$int64:9223372036854775808",
                           "$double:", "$double:1", "$double:NAN", "$double:nan:", "$double:nan:0",
                           "$double:nan:7ff8000000000001x", "$later:1"}) {
    EXPECT_THAT(state_refusal(str_cat("\"", text, "\"")), HasSubstr("state")) << text;
  }
}

TEST(StateJson, RefusesNumbersOutOfRange) {
  EXPECT_THAT(state_refusal("{\"n\":9223372036854775808}"), HasSubstr("state[\"n\"]"));
  EXPECT_THAT(state_refusal("99999999999999999999"), HasSubstr("fits neither"));
  EXPECT_THAT(state_refusal("-9223372036854775809"), HasSubstr("fits neither"));
  state_refusal("1e999");
  EXPECT_EQ(from_json("9223372036854775807"), StateTree(std::numeric_limits<std::int64_t>::max()));
  EXPECT_EQ(from_json("1e2"), StateTree(100.0));
}

TEST(StateJson, RefusesDuplicateKeys) {
  EXPECT_THAT(state_refusal(R"({"a":{"b":1,"b":1}})"), HasSubstr("\"b\" appears twice"));
}

TEST(StateJson, LimitsTheDepthInWritingAndReading) {
  const auto nested = [](std::size_t levels, std::string_view open, std::string_view close) {
    std::string text;
    for (std::size_t i = 0; i < levels; ++i) text += open;
    text += "1";
    for (std::size_t i = 0; i < levels; ++i) text += close;
    return text;
  };
  const StateTree deepest = from_json(nested(kMaxStateDepth, "[", "]"));
  EXPECT_EQ(round_trip(deepest), deepest);
  EXPECT_THAT(state_refusal(nested(kMaxStateDepth + 1, "[", "]")), HasSubstr("200 levels"));
  EXPECT_THAT(state_refusal(nested(1'000'000, "{\"a\":", "}")), HasSubstr("200 levels"));
  StateTree too_deep;
  too_deep.push_back(deepest);
  EXPECT_THROW(to_json(too_deep), Error);
}

TEST(StateJson, RefusesToWriteInvalidUtf8) {
  for (const StateTree& tree : {StateTree("\xff"), StateTree("\xc3"), StateTree("\xed\xa0\x80")}) {
    StateTree state;
    state["name"] = tree;
    try {
      to_json(state);
      FAIL() << "did not throw";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_THAT(error.what(), HasSubstr("state/name"));
    }
  }
  StateTree key;
  key["\xff"] = 1;
  EXPECT_THROW(to_json(key), Error);
  EXPECT_THROW(to_json(bytes({1}), "\xff"), Error);
}

// Every prefix of a valid text, and every text with one changed byte, is read or refused; nothing
// else happens.
TEST(StateJson, SurvivesCorruptText) {
  StateTree tree;
  tree["a"].push_back(1.5);
  tree["a"].push_back(std::uint64_t{3});
  tree["b"] = "text";
  const std::string good = to_json(tree).json;
  for (std::size_t i = 0; i < good.size(); ++i) {
    EXPECT_THROW(from_json(good.substr(0, i)), Error);
    for (int byte = 0; byte < 256; byte += 7) {
      std::string damaged = good;
      damaged[i] = static_cast<char>(byte);
      try {
        from_json(damaged);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
      }
    }
  }
}

TEST(StateJson, GivesTheSizeOfATree) {
  StateTree tree;
  tree["epoch"] = 3;
  EXPECT_EQ(stored_bytes(tree), std::string(R"({"epoch":3})").size());
  tree["bits"] = StateTree::Bytes(1000);
  EXPECT_EQ(stored_bytes(tree), to_json(tree).json.size() + 1000);
}

}  // namespace
}  // namespace brigade::io
