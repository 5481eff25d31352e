#include "trainers/pickle.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"
#include "tests/trainers/torch_writer.h"

namespace tost::train {
namespace {

using Kind = PickleValue::Kind;
using Op = PickleOpcode;

constexpr PickleGlobal kGlobals[] = {
    {"collections.OrderedDict", PickleGlobal::Makes::kDictionary},
    {"argparse.Namespace", PickleGlobal::Makes::kNamespace},
    {"here.Thing", PickleGlobal::Makes::kCall},
};

// A literal with its NULs.
template <size_t N>
std::string Bytes(const char (&literal)[N]) {
  return std::string(literal, N - 1);
}

absl::StatusOr<Pickle> Parsed(const std::string& bytes) {
  return Pickle::Parse(bytes, kGlobals, "x.pkl");
}

// Python: pickle.dumps([None, True, 7, -3, 2**40, 1.5, 'aé', (1, 2), {'k': []}], protocol)
TEST(Pickle, PlainValuesOfProtocols2And4) {
  const std::string protocol2 = Bytes(
      "\x80\x02]q\x00(N\x88K\x07J\xfd\xff\xff\xff\x8a\x06\x00\x00\x00\x00\x00\x01G?\xf8\x00\x00"
      "\x00\x00\x00\x00X\x03\x00\x00\x00"
      "a\xc3\xa9q\x01K\x01K\x02\x86q\x02}q\x03X\x01\x00\x00\x00kq\x04]q\x05se.");
  const std::string protocol4 = Bytes(
      "\x80\x04\x95\x36\x00\x00\x00\x00\x00\x00\x00]\x94(N\x88K\x07J\xfd\xff\xff\xff\x8a\x06\x00"
      "\x00\x00\x00\x00\x01G?\xf8\x00\x00\x00\x00\x00\x00\x8c\x03"
      "a\xc3\xa9\x94K\x01K\x02\x86\x94}\x94\x8c\x01k\x94]\x94se.");
  for (const std::string& bytes : {protocol2, protocol4}) {
    const absl::StatusOr<Pickle> pickle = Parsed(bytes);
    ASSERT_TRUE(pickle.ok()) << pickle.status();
    const PickleValue& list = pickle->root();
    ASSERT_EQ(list.kind, Kind::kList);
    ASSERT_EQ(list.items.size(), 9u);
    EXPECT_EQ(list.items[0]->kind, Kind::kNone);
    EXPECT_EQ(list.items[1]->kind, Kind::kBool);
    EXPECT_EQ(list.items[1]->integer, 1);
    EXPECT_EQ(list.items[2]->integer, 7);
    EXPECT_EQ(list.items[3]->integer, -3);
    EXPECT_EQ(list.items[4]->integer, int64_t{1} << 40);
    EXPECT_EQ(list.items[5]->kind, Kind::kReal);
    EXPECT_EQ(list.items[5]->real, 1.5);
    EXPECT_EQ(list.items[6]->text, "a\xc3\xa9");
    ASSERT_EQ(list.items[7]->kind, Kind::kTuple);
    EXPECT_EQ(list.items[7]->items[1]->integer, 2);
    ASSERT_NE(list.items[8]->Find("k"), nullptr);
    EXPECT_EQ(list.items[8]->Find("k")->kind, Kind::kList);
    EXPECT_EQ(list.items[8]->Find("none"), nullptr);
    EXPECT_EQ(list.Find("k"), nullptr);
  }
}

TEST(Pickle, WholeNumbersOfAnyLength) {
  const auto value = [](const std::string& bytes) {
    PickleWriter writer;
    writer.Op(Op::kLong1).Byte(static_cast<int>(bytes.size())).Raw(bytes);
    return *Parsed(writer.Stop());
  };
  EXPECT_EQ(value("").root().integer, 0);
  EXPECT_EQ(value("\xff").root().integer, -1);
  EXPECT_EQ(value(Bytes("\xff\x00")).root().integer, 255);
  EXPECT_EQ(value(Bytes("\0\0\0\0\0\0\0\x80")).root().integer, INT64_MIN);
  EXPECT_EQ(value(std::string(9, '\x01')).root().kind, Kind::kBytes);
}

TEST(Pickle, ConstructorsStayData) {
  PickleWriter writer;
  writer.Op(Op::kMark);
  writer.Global("here", "Thing").Integer(5).Op(Op::kTuple1).Op(Op::kReduce);
  writer.Global("collections", "OrderedDict").Op(Op::kEmptyTuple).Op(Op::kReduce);
  writer.Text("k").Integer(1).Op(Op::kSetItem);
  writer.Op(Op::kEmptyDictionary).Text("_metadata").Op(Op::kNone).Op(Op::kSetItem);
  writer.Op(Op::kBuild);
  writer.Global("argparse", "Namespace").Op(Op::kEmptyTuple).Op(Op::kNewObject);
  writer.Op(Op::kEmptyDictionary).Text("lr").Integer(2).Op(Op::kSetItem).Op(Op::kBuild);
  writer.Global("_codecs", "encode").Text("a\xc3\xbf").Text("latin1");
  writer.Op(Op::kTuple2).Op(Op::kReduce);
  const absl::StatusOr<Pickle> pickle = Parsed(writer.Op(Op::kTuple).Stop());
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  const std::vector<const PickleValue*>& items = pickle->root().items;
  ASSERT_EQ(items.size(), 4u);
  EXPECT_EQ(items[0]->kind, Kind::kCall);
  EXPECT_EQ(items[0]->items[0]->text, "here.Thing");
  EXPECT_EQ(items[0]->items[1]->integer, 5);
  EXPECT_EQ(items[1]->text, "collections.OrderedDict");
  EXPECT_EQ(items[1]->Find("k")->integer, 1);
  EXPECT_EQ(items[1]->Find("_metadata"), nullptr);
  EXPECT_EQ(items[2]->Find("lr")->integer, 2);
  EXPECT_EQ(items[3]->kind, Kind::kBytes);
  EXPECT_EQ(items[3]->text, "a\xff");
}

TEST(Pickle, ForeignConstructorsAreRefusedByName) {
  PickleWriter writer;
  writer.Global("os", "system").Text("true").Op(Op::kTuple1).Op(Op::kReduce);
  ExpectOneLine(Parsed(writer.Stop()).status(), {"x.pkl, byte 2", "os.system"});
  PickleWriter stack(4);
  stack.Text("posix").Text("system").Op(Op::kStackGlobal);
  ExpectOneLine(Parsed(stack.Stop()).status(), {"posix.system"});
  PickleWriter strange;
  strange.Global("a\rb", std::string(100000, 'c'));
  const absl::Status status = Parsed(strange.Stop()).status();
  ExpectOneLine(status, {"a\\rb.ccc"});
  EXPECT_LT(status.message().size(), 400u);
}

TEST(Pickle, ProgramsThatMakeNoSense) {
  const auto status = [](const std::string& program) {
    return Parsed("\x80\x02" + program).status();
  };
  ExpectOneLine(Parsed("").status(), {"x.pkl, byte 0", "without its stop"});
  ExpectOneLine(Parsed("\x80\x06N.").status(), {"protocol 6"});
  ExpectOneLine(Parsed("\x80\x01N.").status(), {"protocol 1"});
  ExpectOneLine(status("N"), {"byte 3", "without its stop"});
  ExpectOneLine(status("."), {"without its operand"});
  ExpectOneLine(status("t."), {"without its mark"});
  ExpectOneLine(status("N(\x85."), {"without its operand"});  // an operand below the mark
  ExpectOneLine(status("h\x05."), {"no earlier value 5"});
  ExpectOneLine(status("X\xff\xff\xff\xff"), {"ends in the middle"});
  ExpectOneLine(status("\x8d\xff\xff\xff\xff\xff\xff\xff\xff"), {"ends in the middle"});
  ExpectOneLine(status("ccollections"), {"ends in the middle"});
  ExpectOneLine(status("NNa."), {"no container"});
  ExpectOneLine(status("}(Nu."), {"a key without its value"});
  ExpectOneLine(status("N)R."), {"no constructor"});
  ExpectOneLine(status("}}b."), {"attributes"});
  ExpectOneLine(status("I1\n."), {"instruction 0x49"});
}

TEST(Pickle, BombsOfValuesAndCopiesAreBounded) {
  ExpectOneLine(Parsed("\x80\x02" + std::string(Pickle::kMaxValues + 2, 'N')).status(),
                {"more than 4000000 values"});
  ExpectOneLine(Parsed("\x80\x02" + std::string(Pickle::kMaxValues + 2, '(')).status(),
                {"more than 4000000 values"});
  // A namespace that takes its own items again: they double with every two instructions.
  PickleWriter doubling;
  doubling.Global("argparse", "Namespace").Op(Op::kEmptyTuple).Op(Op::kNewObject);
  doubling.Op(Op::kBinPut).Byte(0).Text("k").Op(Op::kNone).Op(Op::kSetItem);
  for (int i = 0; i < 60; ++i) doubling.Op(Op::kBinGet).Byte(0).Op(Op::kBuild);
  ExpectOneLine(Parsed(doubling.Stop()).status(), {"copies too much"});
}

TEST(Pickle, DeepNestingAndCyclesAreHarmless) {
  PickleWriter deep;
  for (int i = 0; i < 1000000; ++i) deep.Op(Op::kEmptyList);
  for (int i = 1; i < 1000000; ++i) deep.Op(Op::kAppend);
  EXPECT_TRUE(Parsed(deep.Stop()).ok());
  PickleWriter cycle;
  cycle.Op(Op::kEmptyList).Op(Op::kBinPut).Byte(0).Op(Op::kBinGet).Byte(0).Op(Op::kAppend);
  const absl::StatusOr<Pickle> pickle = Parsed(cycle.Stop());
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  EXPECT_EQ(pickle->root().items[0], &pickle->root());
}

}  // namespace
}  // namespace tost::train
