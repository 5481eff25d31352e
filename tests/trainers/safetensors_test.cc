#include "trainers/safetensors.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"

namespace tost::train {
namespace {

using testing::ElementsAre;

// A file of the given header text and as many data bytes.
std::string FileBytes(const std::string& json, size_t data_bytes) {
  return BytesOf<uint64_t>({json.size()}) + json + std::string(data_bytes, 'd');
}

std::string Entry(const std::string& name, const std::string& shape, int begin, int end) {
  return absl::StrCat("\"", name, "\":{\"dtype\":\"F32\",\"shape\":", shape, ",\"data_offsets\":[",
                      begin, ",", end, "]}");
}

class SafetensorsTest : public testing::Test {
 protected:
  absl::Status OpenStatus(const std::string& bytes) {
    WriteBytes(path_, bytes);
    return SafetensorsFile::Open(path_).status();
  }
  absl::Status HeaderStatus(const std::string& json, size_t data_bytes = 8) {
    return OpenStatus(FileBytes(json, data_bytes));
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.File("x.safetensors");
};

TEST_F(SafetensorsTest, RoundTripOfEveryTypeOfOurs) {
  const Tensor a = Tensor::FromHost(Shape{2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6});
  const Tensor b = Tensor::FromHost(Shape{2}, std::vector<double>{0.1, -1e300});
  const Tensor c = Tensor::FromHost(Shape{3}, std::vector<int32_t>{-1, 0, 1 << 30});
  const Tensor d = Tensor::FromHost(Shape{2}, std::vector<uint16_t>{65535, 7});
  const Tensor e = Converted(a, DType::kBFloat16);
  const Tensor scalar = Tensor::Scalar(2.5);
  const std::map<std::string, std::string> metadata{{"k", "v"}, {"text", "line\n\"é\""}};
  ASSERT_TRUE(WriteSafetensors(path_,
                               {{"a", a}, {"b", b}, {"c", c}, {"d", d}, {"e", e}, {"s", scalar}},
                               metadata)
                  .ok());
  const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->metadata(), metadata);
  EXPECT_EQ(file->tensors().size(), 6u);
  EXPECT_EQ(file->ReadTensor("a")->shape(), (Shape{2, 3}));
  EXPECT_THAT(file->ReadTensor("a")->ToHost(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(file->ReadTensor("b")->ToHost<double>(), ElementsAre(0.1, -1e300));
  EXPECT_THAT(file->ReadTensor("c")->ToHost<int32_t>(), ElementsAre(-1, 0, 1 << 30));
  EXPECT_EQ(file->ReadTensor("d")->dtype(), DType::kUint16);
  EXPECT_EQ(file->ReadTensor("d")->data<uint16_t>()[0], 65535);
  EXPECT_EQ(file->ReadTensor("e")->dtype(), DType::kBFloat16);
  EXPECT_THAT(file->ReadTensor("e")->ToHost(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(file->ReadTensor("s")->shape().rank(), 0);
  EXPECT_EQ(file->ReadTensor("s")->Item(), 2.5);
  EXPECT_EQ(ReadBytes(path_).size() % 8, 0u);
}

TEST_F(SafetensorsTest, ForeignTypes) {
  const std::string json = R"({"h":{"dtype":"F16","shape":[4],"data_offsets":[0,8]},)"
                           R"("l":{"dtype":"I64","shape":[2],"data_offsets":[8,24]},)"
                           R"("u":{"dtype":"U8","shape":[2],"data_offsets":[24,26]}})";
  WriteBytes(path_, BytesOf<uint64_t>({json.size()}) + json +
                        BytesOf<uint16_t>({0x3C00, 0xC100, 0x7C00, 0x0001}) +
                        BytesOf<int64_t>({-5, int64_t{1} << 40}) + BytesOf<uint8_t>({0, 200}));
  const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->ReadTensor("h")->ToHost(),
              ElementsAre(1.0f, -2.5f, std::numeric_limits<float>::infinity(), 0x1p-24f));
  EXPECT_THAT(file->ReadTensor("u")->ToHost<int32_t>(), ElementsAre(0, 200));
  EXPECT_THAT(*file->ReadIntegers(*file->Find("l")), ElementsAre(-5, int64_t{1} << 40));
  ExpectOneLine(file->ReadTensor("l").status(), {"element 1", "tensor l", "32 bits"});
  ExpectOneLine(file->ReadTensor("none").status(), {"x.safetensors", "no tensor none"});
  ExpectOneLine(file->ReadFloats(*file->Find("l")).status(), {"tensor l", "I64"});
  ExpectOneLine(file->ReadIntegers(*file->Find("h")).status(), {"tensor h", "F16"});
}

TEST_F(SafetensorsTest, ReadsAFileOfTheReferenceImplementation) {
  const absl::StatusOr<SafetensorsFile> file =
      SafetensorsFile::Open(std::string(TOST_SOURCE_DIR) + "/tests/golden/tssa_op_n1.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_FALSE(file->tensors().empty());
  for (const TensorEntry& entry : file->tensors()) {
    EXPECT_TRUE(file->ReadTensor(entry.name).ok()) << entry.name;
  }
}

TEST_F(SafetensorsTest, LengthsThatCannotBe) {
  ExpectOneLine(OpenStatus(""), {"x.safetensors", "0 bytes are too few"});
  ExpectOneLine(OpenStatus("1234567"), {"7 bytes are too few"});
  ExpectOneLine(OpenStatus(std::string(8, '\xFF')),
                {"header of 18446744073709551615 bytes", "0 follow"});
  ExpectOneLine(OpenStatus(BytesOf<uint64_t>({100}) + "{}"), {"header of 100 bytes", "2 follow"});
  ExpectOneLine(SafetensorsFile::Open(folder_.File("none")).status(), {"none"});
  ExpectOneLine(SafetensorsFile::Open(folder_.path()).status(), {folder_.path()});
}

TEST_F(SafetensorsTest, RangesThatDoNotFit) {
  EXPECT_TRUE(HeaderStatus("{" + Entry("a", "[2]", 0, 8) + "}").ok());
  ExpectOneLine(HeaderStatus("{" + Entry("a", "[2]", 0, 8) + "}", 7),
                {"8 bytes, but 7", "1 bytes too short"});
  ExpectOneLine(HeaderStatus("{" + Entry("a", "[2]", 0, 8) + "}", 9),
                {"8 bytes, but 9", "1 bytes too long"});
  ExpectOneLine(HeaderStatus("{" + Entry("a", "[3]", 0, 8) + "}"),
                {"tensor a of F32 [3] takes 12 bytes", "[0, 8)"});
  ExpectOneLine(HeaderStatus("{" + Entry("a", "[1]", 8, 4) + "}"), {"[8, 4)"});
  ExpectOneLine(
      HeaderStatus("{" + Entry("a", "[2]", 0, 8) + "," + Entry("b", "[2]", 4, 12) + "}", 12),
      {"tensors a and b overlap", "byte 4"});
  ExpectOneLine(
      HeaderStatus("{" + Entry("a", "[1]", 0, 4) + "," + Entry("b", "[1]", 8, 12) + "}", 12),
      {"bytes [4, 8)", "before tensor b", "no tensor"});
  ExpectOneLine(HeaderStatus("{" + Entry("a", "[1]", 4, 8) + "}"), {"bytes [0, 4)"});
  ExpectOneLine(
      HeaderStatus("{" + Entry("a", "[4611686018427387904,4611686018427387904]", 0, 8) + "}"),
      {"more than 2^63 bytes"});
  EXPECT_TRUE(
      HeaderStatus("{" + Entry("a", "[0]", 0, 0) + "," + Entry("b", "[2]", 0, 8) + "}").ok());
}

TEST_F(SafetensorsTest, HeadersThatAreNone) {
  const std::string good = Entry("a", "[2]", 0, 8);
  ExpectOneLine(HeaderStatus(""), {"not a safetensors header"});
  ExpectOneLine(HeaderStatus("[]"), {"not a safetensors header", "a list"});
  ExpectOneLine(HeaderStatus("7"), {"a number in place of the object"});
  ExpectOneLine(HeaderStatus("{" + good), {"stops being JSON at byte"});
  ExpectOneLine(HeaderStatus("{" + good + "}}"), {"stops being JSON at byte"});
  ExpectOneLine(HeaderStatus("{" + good + "," + good + "}"), {"\"a\" occurs twice"});
  ExpectOneLine(HeaderStatus(R"({"a":1})"), {"\"a\"", "a number where none belongs"});
  ExpectOneLine(HeaderStatus(R"({"a":{}})"), {"tensor a lacks"});
  ExpectOneLine(HeaderStatus("{" + Entry("a", "[-2]", 0, 8) + "}"), {"\"a\", shape", "-2"});
  ExpectOneLine(HeaderStatus("{" + Entry("a", "[2.5]", 0, 8) + "}"), {"\"a\", shape", "2.5"});
  ExpectOneLine(HeaderStatus("{" + Entry("a", "[99999999999999999999]", 0, 8) + "}"),
                {"\"a\", shape", "99999999999999999999"});
  ExpectOneLine(HeaderStatus("{" + Entry("a", "[18446744073709551615]", 0, 8) + "}"),
                {"\"a\", shape", "18446744073709551615"});
  ExpectOneLine(HeaderStatus("{" + Entry("a", "[[2]]", 0, 8) + "}"), {"\"a\", shape", "a list"});
  ExpectOneLine(HeaderStatus("{" + Entry("a", "\"2\"", 0, 8) + "}"), {"\"a\", shape", "a text"});
  ExpectOneLine(HeaderStatus("{" + Entry("a", "null", 0, 8) + "}"), {"\"a\", shape", "null"});
  ExpectOneLine(HeaderStatus(R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})"),
                {"tensor a", "unknown type \"F33\""});
  ExpectOneLine(HeaderStatus(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,9]}})"),
                {"tensor a lacks"});
  ExpectOneLine(HeaderStatus(R"({"__metadata__":{"k":7},)" + good + "}"),
                {"__metadata__", "a number"});
  ExpectOneLine(HeaderStatus(R"({"__metadata__":{"k":{"l":"m"}}})"), {"__metadata__", "an object"});
}

TEST_F(SafetensorsTest, DeepNestingIsHarmless) {
  ExpectOneLine(HeaderStatus(std::string(10000000, '[')), {"a list in place of the object"});
  std::string objects;
  for (int i = 0; i < 1000000; ++i) objects += "{\"a\":";
  ExpectOneLine(HeaderStatus(objects), {"an object where none belongs"});
  ExpectOneLine(HeaderStatus(R"({"a":{"shape":)" + std::string(1000000, '[')), {"a list"});
}

TEST_F(SafetensorsTest, ManyAxesAreAnErrorOfTheTensorOnly) {
  ASSERT_TRUE(HeaderStatus("{" + Entry("a", "[1,1,1,1,1,1,2]", 0, 8) + "}").ok());
  ExpectOneLine(SafetensorsFile::Open(path_)->ReadTensor("a").status(), {"tensor a has 7 axes"});
}

TEST_F(SafetensorsTest, WriterWithoutCommitLeavesTheOldFile) {
  const Tensor old = Tensor::Scalar(1);
  ASSERT_TRUE(WriteSafetensors(path_, {{"a", old}}).ok());
  {
    absl::StatusOr<SafetensorsWriter> writer =
        SafetensorsWriter::Create(path_, {EntryFor("a", old), EntryFor("b", old)}, {});
    ASSERT_TRUE(writer->Append(Tensor::Scalar(2)).ok());
  }
  EXPECT_THAT(folder_.Names(), ElementsAre("x.safetensors"));
  EXPECT_EQ(SafetensorsFile::Open(path_)->ReadTensor("a")->Item(), 1);
}

// Larger than one piece of the writer's.
TEST_F(SafetensorsTest, LargeTensors) {
  std::vector<float> values(3000001);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const Tensor tensor = Tensor::FromHost(Shape{static_cast<int64_t>(values.size())}, values);
  ASSERT_TRUE(WriteSafetensors(path_, {{"first", Tensor::Scalar(1)}, {"large", tensor}}).ok());
  EXPECT_TRUE(SafetensorsFile::Open(path_)->ReadTensor("large")->ToHost() == values);
}

}  // namespace
}  // namespace tost::train
