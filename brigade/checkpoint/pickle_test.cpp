#include "brigade/checkpoint/pickle.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>

#include "brigade/checkpoint/testing/sample.h"

namespace brigade::checkpoint {
namespace {

using std::string_literals::operator""s;
using testing::caught;
using Kind = PickleValue::Kind;

// The bytes of all tests' pickles, which refer to them.
Pickle parse(const std::string& program) {
  static std::deque<std::string> bytes;
  return parse_pickle(bytes.emplace_back("\x80\x02" + program), "file.pt");
}

testing::Caught refused(const std::string& program) {
  return caught([&] { parse(program); });
}

TEST(Pickle, ReadsPlainValues) {
  // [None, True, 7, 513, -2, 1.5, "ab"]
  const Pickle pickle = parse(
      "](N\x88K\x07M\x01\x02J\xfe\xff\xff\xffG\x3f\xf8\0\0\0\0\0\0X\x02\0\0\0"
      "abe."s);
  const PickleValue& list = pickle.at(pickle.root);
  ASSERT_EQ(list.kind, Kind::kList);
  ASSERT_EQ(list.items.size(), 7u);
  EXPECT_EQ(pickle.at(list.items[0]).kind, Kind::kNone);
  EXPECT_EQ(pickle.at(list.items[1]).number, 1);
  EXPECT_EQ(pickle.at(list.items[2]).number, 7);
  EXPECT_EQ(pickle.at(list.items[3]).number, 513);
  EXPECT_EQ(pickle.at(list.items[4]).number, -2);
  EXPECT_EQ(pickle.at(list.items[5]).real, 1.5);
  EXPECT_EQ(pickle.at(list.items[6]).text, "ab");
}

TEST(Pickle, ReadsLongIntegers) {
  EXPECT_EQ(parse("\x8a\x06\0\0\0\0\0\x01."s).at(0).number, std::int64_t{1} << 40);
  EXPECT_EQ(parse("\x8a\x01\xff."s).at(0).number, -1);
  EXPECT_EQ(parse("\x8a\0."s).at(0).number, 0);
  EXPECT_EQ(refused("\x8a\x09\0\0\0\0\0\0\0\0\0."s).code, ErrorCode::kDataLoss);
}

TEST(Pickle, SharesMemoizedValues) {
  const Pickle pickle = parse("]q\0h\0a."s);  // a list that holds itself
  EXPECT_EQ(pickle.at(pickle.root).items, (std::vector<PickleIndex>{pickle.root}));
}

std::size_t items_of(const Pickle& pickle) {
  std::size_t items = 0;
  for (const PickleValue& each : pickle.values) items += each.items.size();
  return items;
}

// If it were copied, a list of n numbers that is referenced n times would take quadratic memory.
TEST(Pickle, ARepeatedSizeIsNotCopied) {
  constexpr int kCount = 2000;
  std::string program = "(";
  for (int i = 0; i < kCount; ++i) program += "K\x01";
  program += "tq\0"s + "ctorch\nSize\nq\1"s + "](";
  for (int i = 0; i < kCount; ++i) program += "h\1h\0\x85R"s;
  program += "e.";
  EXPECT_LE(items_of(parse(program)), program.size());
}

TEST(Pickle, TensorsAndStoragesHaveOnlyTheirFields) {
  const std::string many(2000, 'N');
  const std::string tensor = "ctorch._utils\n_rebuild_tensor_v2\n";
  EXPECT_EQ(parse(tensor + "(NNNNNNtR.").values.back().items.size(), 6u);
  EXPECT_EQ(refused(tensor + "(" + many + "tR.").code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused(tensor + "(NNNNNtR.").code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(parse("(NNNNNtQ.").values.back().items.size(), 5u);
  EXPECT_EQ(refused("(" + many + "tQ.").code, ErrorCode::kDataLoss);
}

TEST(Pickle, MemoizesNoMoreValuesThanItHasBytes) {
  EXPECT_EQ(refused("Nr\xff\xff\xff\x7f."s).code, ErrorCode::kDataLoss);
  EXPECT_EQ(parse("N\x94N\x94h\1."s).root, 1u);
}

TEST(Pickle, TextsReferToItsBytes) {
  const std::string bytes = "\x80\x02X\x04\0\0\0name."s;
  const Pickle pickle = parse_pickle(bytes, "file.pt");
  EXPECT_EQ(pickle.at(0).text, "name");
  EXPECT_EQ(pickle.at(0).text.data(), bytes.data() + 7);
}

TEST(Pickle, AValueTakesLittleMemory) {
  EXPECT_LE(sizeof(PickleValue), 64u);
}

TEST(Pickle, RunsNoCodeAndNamesWhatItRefuses) {
  const auto system = refused("cos\nsystem\nX\x02\0\0\0ls\x85R."s);
  EXPECT_EQ(system.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(system.message.find("'os.system'"), std::string::npos) << system.message;
  EXPECT_NE(refused("c__builtin__\neval\n."s).message.find("eval"), std::string::npos);
  EXPECT_EQ(refused("X\x02\0\0\0osX\x06\0\0\0system\x93."s).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused("ctorch.storage\n_load_from_bytes\n."s).code, ErrorCode::kInvalidArgument);
  // The instructions that call or import in other ways: INST, OBJ, NEWOBJ_EX, EXT1, PERSID.
  for (const char code : {'i', 'o', '\x92', '\x82', 'P'}) {
    const auto error = refused("(N"s + code + "os\nsystem\n.");
    EXPECT_EQ(error.code, ErrorCode::kInvalidArgument) << code;
    EXPECT_NE(error.message.find("instruction 0x"), std::string::npos) << error.message;
  }
  // A storage is not a function, a dict's type takes no arguments, a list has no attributes.
  EXPECT_EQ(refused("ctorch\nFloatStorage\n)R."s).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused("ccollections\nOrderedDict\n]\x85R."s).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused("]}b."s).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused("N)R."s).code, ErrorCode::kInvalidArgument);
}

TEST(Pickle, OnlyModulesOfAnArchiveAreObjects) {
  // Module().__dict__ = {"a": None}
  const Pickle pickle = parse("c__torch__.inner\nModule\n)\x81}(X\x01\0\0\0aNub."s);
  const PickleValue& object = pickle.at(pickle.root);
  ASSERT_EQ(object.kind, Kind::kObject);
  ASSERT_EQ(object.items.size(), 1u);
  EXPECT_EQ(pickle.at(object.items[0]).kind, Kind::kDict);
  EXPECT_EQ(pickle.at(object.items[0]).items.size(), 2u);

  const auto dict = refused("ccollections\nOrderedDict\n)\x81.");
  EXPECT_EQ(dict.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(dict.message.find("OrderedDict"), std::string::npos) << dict.message;
  EXPECT_EQ(refused("c__torch__\nModule\nN\x85\x81."s).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused("N)\x81."s).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused("c__torch__\nModule\n)R."s).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused("c__torch__x\nModule\n."s).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused("c__torch__\nModule\n)\x81Nb."s).code, ErrorCode::kDataLoss);
}

TEST(Pickle, RefusesBrokenPrograms) {
  for (const std::string& program :
       {""s,     "N"s,      "."s,        "(."s,   "t."s,         "e."s,
        "a."s,   "]a."s,    "Na."s,      "NNa."s, "}Ns."s,       "}(Nu."s,
        "](NN"s, "q\0."s,   "(q\0."s,    "h\0."s, "N\x85\x86."s, "X\xff\xff\xff\xff."s,
        "cos"s,  "cos\nx"s, "R."s,       "NR."s,  "b."s,         "Q."s,
        "NQ."s,  "(\x85."s, "\x80\x09."s}) {
    EXPECT_EQ(refused(program).code, ErrorCode::kDataLoss) << ::testing::PrintToString(program);
  }
}

}  // namespace
}  // namespace brigade::checkpoint
